package tcpx

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// byName returns a worker's series by name.
func byName(w *worker) map[string]transport.Series {
	found := map[string]transport.Series{}
	for _, s := range w.ReadRecording().Series {
		found[s.Name] = s
	}
	return found
}

// TestTrace: each series has a value per part, and shares do not exceed 1.
func TestTrace(t *testing.T) {
	const parts = 8
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 1 << 20}, nil)
	require.Empty(t, a.ReadRecording().Series, "before anything was traced")
	// all is in the first part
	a.StartRecording(transport.Recording{Parts: parts, Window: time.Hour})
	b.StartRecording(transport.Recording{Parts: parts, Window: time.Nanosecond})
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

// TestTimeIsBookedOnce: work and stalls of a direction together do not exceed the time that
// passed.
func TestTimeIsBookedOnce(t *testing.T) {
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 1 << 20}, nil)
	for range 50 {
		oneCall(t, a, b, 1<<20)
	}
	for _, w := range []*worker{a, b} {
		k := map[string]uint64{}
		for _, s := range w.ReadStats(nil) {
			k[s.Name] = s.Value
		}
		require.Positive(t, k["busy_ns"])
		require.Positive(t, k["sending_ns"])
		worked := k["sending_ns"] + k["receiving_ns"] + k["unpacking_ns"]
		sending, receiving := worked, worked
		for _, name := range []string{"send_window", "pool", "credit", "task_slots", "again",
			"nobufs"} {
			require.Contains(t, k, "stall_"+name+"_ns")
			sending += k["stall_"+name+"_ns"]
		}
		for _, name := range []string{"bounce_pages", "unpack_slots", "unpack", "data"} {
			require.Contains(t, k, "stall_"+name+"_ns")
			receiving += k["stall_"+name+"_ns"]
		}
		require.LessOrEqual(t, sending, k["busy_ns"])
		require.LessOrEqual(t, receiving, k["busy_ns"])
	}
}
