package control

import (
	"errors"
	"fmt"
	"sync"

	"transportbench/core/transport"
)

// Workers are the workers of one open transport, by index. Its methods are safe for
// concurrent use.
type Workers[W transport.Worker] struct {
	name Name

	mu     sync.Mutex
	taken  []bool // by index
	open   []W    // in the order of their making
	closed bool
}

// NewWorkers returns a registry with room for count workers.
func NewWorkers[W transport.Worker](name Name, count int) *Workers[W] {
	return &Workers[W]{name: name, taken: make([]bool, count)}
}

// New makes the worker of an index with the given function, as Transport.NewWorker
// does. Its error is an [*transport.OpError], and wraps transport.ErrClosed once the
// registry is closed.
func (s *Workers[W]) New(index int, make func() (W, error)) (transport.Worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const op = "new worker"
	if s.closed {
		return nil, s.name.Error(op, transport.ErrClosed)
	}
	if index < 0 || index >= len(s.taken) || s.taken[index] {
		return nil, s.name.Error(op, fmt.Errorf("index %d is taken or out of range (0 to %d)",
			index, len(s.taken)-1))
	}
	w, err := make()
	if err != nil {
		return nil, s.name.Error(op, err)
	}
	s.taken[index] = true
	s.open = append(s.open, w)
	return w, nil
}

// Close calls release once, with all workers that were made, and lets no more be
// made. Later calls return nil.
func (s *Workers[W]) Close(release func(workers []W) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return release(s.open)
}

// Each calls f for each worker and joins the errors.
func Each[W any](workers []W, f func(W) error) error {
	errs := make([]error, len(workers))
	for i, w := range workers {
		errs[i] = f(w)
	}
	return errors.Join(errs...)
}
