package bounce

import "runtime"

// Synchronous is an unpacker whose Launch waits until the request is copied, like a program that
// waits for each of its kernels.
type Synchronous struct {
	Unpacker
	copied [UnpackSlots]bool
}

// Inner returns the unpacker that a Synchronous makes wait, or u itself.
func Inner(u Unpacker) Unpacker {
	if s, ok := u.(*Synchronous); ok {
		return s.Unpacker
	}
	return u
}

// Launch implements [Unpacker].
func (s *Synchronous) Launch(slot int, fragments []Fragment, to Buffer) error {
	err := s.Unpacker.Launch(slot, fragments, to)
	for looks := 1; err == nil && !s.copied[slot]; looks++ {
		s.copied[slot], err = s.Unpacker.Done(slot)
		if looks%1024 == 0 {
			runtime.Gosched() // the unpacker's goroutine may have no other processor
		}
	}
	return err
}

// Done implements [Unpacker].
func (s *Synchronous) Done(slot int) (bool, error) {
	copied := s.copied[slot]
	s.copied[slot] = false
	return copied, nil
}
