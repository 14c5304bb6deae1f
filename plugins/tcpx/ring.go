package tcpx

import "math/bits"

// ring is a queue of bounded size.
type ring[T any] struct {
	list        []T
	first, last uint // run freely
}

// newRingOf makes a queue with room for size.
func newRingOf[T any](size int) ring[T] { return ring[T]{list: make([]T, powerOfTwo(size))} }

func (r *ring[T]) len() int    { return int(r.last - r.first) }
func (r *ring[T]) full() bool  { return r.len() == len(r.list) }
func (r *ring[T]) empty() bool { return r.last == r.first }

// push appends an element, for which there must be room, to be filled.
func (r *ring[T]) push() *T {
	t := r.at(r.last)
	r.last++
	return t
}

// at is the element that was pushed after so many others.
func (r *ring[T]) at(number uint) *T { return &r.list[number&uint(len(r.list)-1)] }

// head is the oldest element, of which there must be one.
func (r *ring[T]) head() *T { return r.at(r.first) }

func (r *ring[T]) pop() { r.first++ }

// powerOfTwo rounds up.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
