package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
)

// TestCallsOfATraceAreNotCounted: the distance to the next trace counts from the end of the last.
func TestCallsOfATraceAreNotCounted(t *testing.T) {
	s := newStager(machine.Calibrated(), 0, 0, 1)
	s.left = 100
	require.True(t, s.waits(30))
	s.state = stagerFlying
	require.False(t, s.waits(30))
	s.state = stagerIdle
	require.True(t, s.waits(69))
	require.False(t, s.waits(1))
}
