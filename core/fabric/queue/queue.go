package queue

import "transportbench/core/fabric/pow2"

// Queue is a first-in, first-out queue in a ring. Elements are numbered from 0 in the order in
// which they are pushed, and can be reached by number while they are in the queue.
type Queue[T any] struct {
	ring        []T
	first, last uint64 // elements popped and pushed so far
}

// New returns a queue with room for at least size elements.
func New[T any](size int) Queue[T] { return Queue[T]{ring: make([]T, pow2.Ceil(size))} }

// Len returns the number of elements.
func (q *Queue[T]) Len() int { return int(q.last - q.first) }

// Cap returns the number of elements for which there is room.
func (q *Queue[T]) Cap() int { return len(q.ring) }

// Empty reports whether there are no elements.
func (q *Queue[T]) Empty() bool { return q.last == q.first }

// Full reports whether there is no room for another element.
func (q *Queue[T]) Full() bool { return q.last-q.first == uint64(len(q.ring)) }

// Push appends an element, for which there must be room, and returns it to be filled: it may have
// the content of an earlier one.
func (q *Queue[T]) Push() *T {
	t := q.At(q.last)
	q.last++
	return t
}

// Head returns the oldest element. The queue must not be empty.
func (q *Queue[T]) Head() *T { return q.At(q.first) }

// Pop removes the oldest element. The queue must not be empty.
func (q *Queue[T]) Pop() { q.first++ }

// First returns the number of the oldest element, and so how many were popped.
func (q *Queue[T]) First() uint64 { return q.first }

// Last returns the number of the next element to be pushed, and so how many were pushed.
func (q *Queue[T]) Last() uint64 { return q.last }

// At returns the element with a number from First to Last-1.
func (q *Queue[T]) At(number uint64) *T { return &q.ring[number&uint64(len(q.ring)-1)] }
