package calltable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

func TestCalls(t *testing.T) {
	c := NewCalls(3)
	for want := range uint32(3) {
		number, ok := c.Next()
		require.True(t, ok)
		require.Equal(t, want, number)
		c.Begin(number, transport.Token(100+number))
	}
	_, ok := c.Next()
	require.False(t, ok, "all numbers are in use")
	require.False(t, c.Waiting(3))
	require.False(t, c.Waiting(1<<32-1))
	require.True(t, c.Waiting(1))
	require.Equal(t, transport.Token(101), c.End(1))
	require.False(t, c.Waiting(1), "a second reply")
	require.Zero(t, c.Free(), "an ended call keeps its number")
	c.Release(1)
	number, ok := c.Next()
	require.True(t, ok)
	require.Equal(t, uint32(1), number)
}

func TestRequests(t *testing.T) {
	r := NewRequests(2)
	require.True(t, r.Available(1))
	require.False(t, r.Available(2))
	require.False(t, r.Open(1))
	r[1] = true
	require.True(t, r.Open(1))
	require.False(t, r.Available(1), "the peer uses a number twice")
	require.False(t, r.Open(1<<64-1))
}

// TestAllocations checks that the tables never allocate once they are made.
func TestAllocations(t *testing.T) {
	c := NewCalls(4)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		number, _ := c.Next()
		c.Begin(number, 7)
		c.Release(number)
		_ = c.End(number)
	}))
}
