package rank

import "transportbench/core/base/record"

// series counts operations by part of the window, so that drift shows. It is
// told of sampled operations only.
type series struct {
	length uint64 // ticks
	next   uint64 // ticks: where the current part ends
	at     int
	done   [record.Slices]uint64 // operations completed until the end of each part
}

func (s *series) reset(window uint64) { *s = series{length: window / record.Slices} }

func (s *series) start(now uint64) { s.next = now + s.length }

// record notes that ops operations were completed by now.
func (s *series) record(now, ops uint64) {
	for now >= s.next && s.at < record.Slices-1 {
		// What came since the last sample belongs to the part before.
		s.at++
		s.done[s.at] = s.done[s.at-1]
		s.next += s.length
	}
	s.done[s.at] = ops
}

// report returns the operations of each part, and nothing where the window was
// cut short.
func (s *series) report() []uint64 {
	if s.at < record.Slices-1 {
		return nil
	}
	list := make([]uint64, record.Slices)
	before := uint64(0)
	for i, done := range s.done {
		list[i] = done - min(before, done)
		before = done
	}
	return list
}
