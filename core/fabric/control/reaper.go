package control

import (
	"sync"
	"time"
)

// Drainer is a closed worker of a library.
type Drainer interface {
	// Drain makes progress up to rounds times and returns how much is still to be sent.
	Drain(rounds int) (pending int)
}

// Reaper makes progress with closed workers until their library has sent their last messages. Their
// own threads no longer call them. The zero value is ready to use.
type Reaper struct {
	mu      sync.Mutex
	workers []Drainer
	stopped chan struct{} // closed when the goroutine ends; nil if there is none
	ending  bool
}

const (
	// reapRounds is how often a worker progresses before the next one does.
	reapRounds = 256
	reapPause  = 200 * time.Microsecond
	// reapPatience is how long Stop waits.
	reapPatience = 10 * time.Millisecond
)

// Add takes a closed worker, until Stop or until nothing of it is pending.
func (r *Reaper) Add(w Drainer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers = append(r.workers, w)
	if r.stopped == nil {
		r.stopped = make(chan struct{})
		go r.run(r.stopped)
	}
}

func (r *Reaper) run(stopped chan struct{}) {
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

// Stop waits for the last messages, up to reapPatience, and uses no worker afterwards.
func (r *Reaper) Stop() {
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
