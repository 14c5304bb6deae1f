package rank

// queue is a ring of slot numbers.
type queue struct {
	slots      []uint32
	mask       uint32
	head, tail uint32 // free running
}

func newQueue(room int) queue {
	size := 1
	for size < room {
		size *= 2
	}
	return queue{slots: make([]uint32, size), mask: uint32(size - 1)}
}

func (q *queue) len() int { return int(q.tail - q.head) }

func (q *queue) push(slot uint32) {
	q.slots[q.tail&q.mask] = slot
	q.tail++
}

// unshift puts a slot before all others.
func (q *queue) unshift(slot uint32) {
	q.head--
	q.slots[q.head&q.mask] = slot
}

// pop takes the first; there must be one.
func (q *queue) pop() uint32 {
	slot := q.slots[q.head&q.mask]
	q.head++
	return slot
}
