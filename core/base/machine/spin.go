package machine

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// Spin keeps processors busy, each with a thread of this process, until stop is called. It returns
// once all the threads are pinned.
func Spin(cpus []CPU) (stop func(), err error) {
	var stopped atomic.Bool
	var threads sync.WaitGroup
	before := runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + len(cpus)) // the others run beside them
	stop = sync.OnceFunc(func() {
		stopped.Store(true)
		threads.Wait()
		runtime.GOMAXPROCS(before)
	})
	pinned := make(chan error)
	for _, cpu := range cpus {
		threads.Go(func() {
			runtime.LockOSThread() // the thread ends with this function
			err := Pin(cpu.ID)
			pinned <- err
			for err == nil && !stopped.Load() {
			}
		})
	}
	for range cpus {
		err = errors.Join(err, <-pinned)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}
