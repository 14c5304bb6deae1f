package ucxam

import (
	"sync"
	"time"

	"transportbench/plugins/ucxam/internal/ucp"
)

// reaper progresses closed workers until what they sent is on its way. Their
// own threads do not call them any more.
type reaper struct {
	mu      sync.Mutex
	workers []*ucp.Worker
	stopped chan struct{} // closed when the goroutine ends; nil where there is none
	ending  bool
}

const (
	// reapRounds is how often a worker progresses in its turn.
	reapRounds = 256
	reapPause  = 200 * time.Microsecond
	// reapPatience is how long Close of the transport lets the reaper go on.
	reapPatience = 10 * time.Millisecond
)

// add hands a closed worker over.
func (r *reaper) add(w *ucp.Worker) {
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

// stop ends the goroutine, when it is done or out of patience. No worker is
// touched afterwards.
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
