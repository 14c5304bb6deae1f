package tcpx

import "transportbench/core/fabric/pow2"

// ring is a queue of bounded size.
type ring[T any] struct {
	list        []T
	first, last uint // elements popped and pushed so far
}

// newRing returns a queue with room for size elements.
func newRing[T any](size int) ring[T] { return ring[T]{list: make([]T, pow2.Ceil(size))} }

func (r *ring[T]) full() bool  { return r.last-r.first == uint(len(r.list)) }
func (r *ring[T]) empty() bool { return r.last == r.first }

// push appends an element, for which there must be room, and returns it to be filled.
func (r *ring[T]) push() *T {
	t := r.at(r.last)
	r.last++
	return t
}

// at returns the element that was pushed after so many others.
func (r *ring[T]) at(number uint) *T { return &r.list[number&uint(len(r.list)-1)] }

// head returns the oldest element. The queue must not be empty.
func (r *ring[T]) head() *T { return r.at(r.first) }

func (r *ring[T]) pop() { r.first++ }
