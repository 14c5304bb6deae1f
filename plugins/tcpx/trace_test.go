package tcpx

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// byName is a worker's trace.
func byName(w *worker) map[string]transport.Series {
	found := map[string]transport.Series{}
	for _, s := range w.ReadTrace(nil) {
		found[s.Name] = s
	}
	return found
}

// TestTrace: a trace has as many values as parts, shares are shares, and what holds a
// connection up is in it.
func TestTrace(t *testing.T) {
	const parts = 8
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 1 << 20}, nil)
	require.Empty(t, a.ReadTrace(nil), "before anything was traced")
	a.BeginTrace(parts, time.Hour) // all is in the first part
	b.BeginTrace(parts, time.Nanosecond)
	for range 20 {
		oneCall(t, a, b, 1<<20)
	}
	trace := byName(a)
	for name, s := range trace {
		require.NotEmpty(t, s.Help, name)
		require.Len(t, s.Values, parts, name)
		require.Positive(t, s.Values[0], name)
		for _, v := range s.Values[1:] {
			require.Zero(t, v, name)
		}
		if s.Remedy != "" {
			require.LessOrEqual(t, s.Values[0], 1.0, name)
		}
	}
	for _, name := range []string{"busy", "send_window", "sending", "receiving", "unpacking"} {
		require.Contains(t, trace, name)
	}
	require.LessOrEqual(t, trace["send_window"].Values[0], float64(requests))
	require.Empty(t, byName(b), "after its end")
}

// TestTimeIsBookedOnce: what the thread worked is no stall, and both together are no more
// than the time that passed, each way.
func TestTimeIsBookedOnce(t *testing.T) {
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 1 << 20}, nil)
	for range 50 {
		oneCall(t, a, b, 1<<20)
	}
	for _, w := range []*worker{a, b} {
		k := &w.counts.spent
		require.Positive(t, k.busy)
		require.Positive(t, k.by[causeSending])
		worked := k.by[causeSending] + k.by[causeReceiving] + k.by[causeUnpacking]
		sending, receiving := worked, worked
		for c := causeWindow; c <= causeNoBuffers; c++ {
			sending += k.by[c]
		}
		for c := causePages; c < causes; c++ {
			receiving += k.by[c]
		}
		require.LessOrEqual(t, sending, k.busy)
		require.LessOrEqual(t, receiving, k.busy)
	}
}

// TestTracePart: times fall into their parts, and into none before or behind them.
func TestTracePart(t *testing.T) {
	var none trace
	require.Nil(t, none.at(5))
	tr := trace{parts: make([]spent, 3), length: 10, next: 110}
	require.Same(t, &tr.parts[0], tr.at(100))
	require.Same(t, &tr.parts[0], tr.at(109))
	require.Same(t, &tr.parts[1], tr.at(110))
	require.Same(t, &tr.parts[2], tr.at(129))
	require.Nil(t, tr.at(130))
	require.Nil(t, tr.at(101), "once it is over")
}
