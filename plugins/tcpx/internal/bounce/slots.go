package bounce

import (
	"errors"
	"time"
)

// Slots is an [Unpacker] and its free slots. The connections of a worker share it.
type Slots struct {
	Unpacker
	free []int
}

// NewSlots registers the memory of an allocator with an unpacker. If it fails, it closes
// both.
func NewSlots(a Allocator, u Unpacker) (*Slots, error) {
	if err := u.Register(a.Memory()); err != nil {
		return nil, errors.Join(err, u.Close(), a.Close())
	}
	s := &Slots{Unpacker: u}
	for slot := range UnpackSlots {
		s.free = append(s.free, slot)
	}
	return s, nil
}

// Take takes a free slot; ok is false if there is none.
func (s *Slots) Take() (slot int, ok bool) {
	last := len(s.free) - 1
	if last < 0 {
		return -1, false
	}
	slot = s.free[last]
	s.free = s.free[:last]
	return slot, true
}

// Return gives a slot back in which nothing runs.
func (s *Slots) Return(slot int) { s.free = append(s.free, slot) }

// Abandon gives back the slot of a request whose connection is over. If wait is not set and the
// unpacker is still copying, Abandon returns false and keeps the slot.
func (s *Slots) Abandon(slot int, wait bool) bool {
	for {
		done, err := s.Done(slot)
		if done || err != nil {
			s.Return(slot)
			return true
		}
		if !wait {
			return false
		}
		time.Sleep(50 * time.Microsecond)
	}
}
