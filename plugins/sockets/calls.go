package sockets

import "transportbench/core/transport"

// pendingCalls are the calls of one connection that have no response yet, by the number
// that travels over the wire.
type pendingCalls struct {
	tokens  []transport.Token
	waiting []bool
	free    []uint32
}

func newPendingCalls(most int) pendingCalls {
	c := pendingCalls{tokens: make([]transport.Token, most), waiting: make([]bool, most),
		free: make([]uint32, most)}
	for i := range c.free {
		c.free[i] = uint32(most - 1 - i)
	}
	return c
}
