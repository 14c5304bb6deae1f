package ofi

import (
	"sync"
	"time"

	"transportbench/plugins/ofi/internal/fi"
)

// reaper progresses closed workers until libfabric has sent their last messages. Their own
// threads no longer call them.
type reaper struct {
	mu      sync.Mutex
	workers []*fi.Worker
	stopped chan struct{} // closed when the goroutine ends; nil if there is none
	ending  bool
}

const (
	// reapRounds is how often a worker progresses before the next one does.
	reapRounds = 256
	reapPause  = 200 * time.Microsecond
	// reapPatience is how long Close of the transport waits for the reaper.
	reapPatience = 10 * time.Millisecond
)

// add passes a closed worker to the reaper.
func (r *reaper) add(w *fi.Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers = append(r.workers, w)
	if r.stopped == nil {
		r.stopped = make(chan struct{})
		go r.run(r.stopped)
	}
}

func (r *reaper) run(stopped chan struct{}) {
	defer close(stopped)
	for {
		r.mu.Lock()
		left := r.workers[:0]
		for _, w := range r.workers {
			if w.Drain(reapRounds) > 0 {
				left = append(left, w)
			}
		}
		clear(r.workers[len(left):])
		r.workers = left
		if len(left) == 0 || r.ending {
			r.stopped = nil
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		time.Sleep(reapPause)
	}
}

// stop waits until the goroutine is done, or ends it after reapPatience. It uses no worker
// afterwards.
func (r *reaper) stop() {
	r.mu.Lock()
	stopped := r.stopped
	r.mu.Unlock()
	if stopped == nil {
		return
	}
	select {
	case <-stopped:
	case <-time.After(reapPatience):
		r.mu.Lock()
		r.ending = true
		r.mu.Unlock()
		<-stopped
	}
}
