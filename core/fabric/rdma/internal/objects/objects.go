package objects

import (
	"errors"
	"io"
	"sync"

	"transportbench/core/fabric/control"
)

// ErrClosed is the error of a closed device.
var ErrClosed = errors.New("closed")

// Set holds the open objects of a device, which the device's Close closes.
type Set struct {
	// Mu guards the set, and what else the device has.
	Mu      sync.Mutex
	Closed  bool // the device is
	objects map[io.Closer]int

	control.Registrations
}

// New returns an empty set.
func New() Set { return Set{objects: map[io.Closer]int{}} }

// The order in which a device closes its objects.
const (
	QueuePairs = iota // and notifiers
	Queues
	Memory
	orders
)

// Adopt adds an object. It returns ErrClosed if the device is closed.
func (s *Set) Adopt(o io.Closer, order int) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Closed {
		return ErrClosed
	}
	s.AdoptLocked(o, order)
	return nil
}

// AdoptLocked is Adopt for a caller that holds Mu and has looked at Closed.
func (s *Set) AdoptLocked(o io.Closer, order int) { s.objects[o] = order }

// Disown removes an object that is closed.
func (s *Set) Disown(o io.Closer) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.DisownLocked(o)
}

// DisownLocked is Disown for a caller that holds Mu.
func (s *Set) DisownLocked(o io.Closer) { delete(s.objects, o) }

// IsClosed reports whether the device is closed.
func (s *Set) IsClosed() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Closed
}

// CloseAll closes all objects, once; first is false for later calls.
func (s *Set) CloseAll() (errs []error, first bool) {
	s.Mu.Lock()
	if s.Closed {
		s.Mu.Unlock()
		return nil, false
	}
	s.Closed = true
	var objects [orders][]io.Closer
	for o, order := range s.objects {
		objects[order] = append(objects[order], o)
	}
	s.Mu.Unlock()
	for _, list := range objects {
		for _, o := range list {
			errs = append(errs, o.Close())
		}
	}
	return errs, true
}
