package calltable

import "transportbench/core/transport"

// Calls are the calls to one peer, by number.
type Calls struct {
	tokens  []transport.Token
	waiting []bool   // no reply has come yet
	free    []uint32 // unused numbers; the last one is used next
}

// NewCalls returns a table with the numbers below limit.
func NewCalls(limit int) Calls {
	c := Calls{tokens: Padded[transport.Token](limit), waiting: Padded[bool](limit),
		free: Padded[uint32](limit)}
	for i := range c.free {
		c.free[i] = uint32(limit - 1 - i)
	}
	return c
}

// Next returns the number of the next call; ok is false if all numbers are in use.
func (c *Calls) Next() (number uint32, ok bool) {
	last := len(c.free) - 1
	if last < 0 {
		return 0, false
	}
	return c.free[last], true
}

// Begin uses the number that Next has returned for a call with this token.
func (c *Calls) Begin(number uint32, token transport.Token) {
	c.free = c.free[:len(c.free)-1]
	c.tokens[number] = token
	c.waiting[number] = true
}

// Waiting reports whether the call of a number waits for its reply. The number may come from the
// peer: any value is allowed.
func (c *Calls) Waiting(number uint32) bool {
	return uint64(number) < uint64(len(c.waiting)) && c.waiting[number]
}

// End ends a call that is Waiting and returns its token. Its number stays in use until Release.
func (c *Calls) End(number uint32) transport.Token {
	c.waiting[number] = false
	return c.tokens[number]
}

// Release makes the number of an ended call available again.
func (c *Calls) Release(number uint32) { c.free = append(c.free, number) }

// ReleaseAll releases a number of calls.
func (c *Calls) ReleaseAll(numbers []uint32) { c.free = append(c.free, numbers...) }

// Free returns how many numbers are available.
func (c *Calls) Free() int { return len(c.free) }

// Requests are the calls of one peer, by number: true from their delivery until they are answered.
// The token of a request's event is its number.
type Requests []bool

// NewRequests returns a table for the numbers below limit.
func NewRequests(limit int) Requests { return Padded[bool](limit) }

// Open reports whether a request with this token waits for a reply. Any value is allowed.
func (r Requests) Open(token transport.Token) bool {
	return token < transport.Token(len(r)) && r[token]
}

// Available reports whether the peer may make a call with this number: it is below the limit and
// not open. Any value is allowed.
func (r Requests) Available(number uint32) bool {
	return uint64(number) < uint64(len(r)) && !r[number]
}

// Begin opens a request if it is Available, and reports whether it was.
func (r Requests) Begin(number uint32) bool {
	if !r.Available(number) {
		return false
	}
	r[number] = true
	return true
}

// Padded returns a slice of n elements that shares no cache line with other memory. Small slices
// that different threads write could otherwise lie in the same line.
func Padded[T any](n int) []T {
	const margin = 128 // elements, and so at least as many bytes
	return make([]T, margin+n+margin)[margin : margin+n : margin+n]
}
