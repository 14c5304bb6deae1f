package export

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// Each step begins at its time after the first one, on the lane of its connection, and lasts until
// the next one. The times are of this century, of which float64 has no nanoseconds.
func TestChromeTrace(t *testing.T) {
	const then = int64(1_800_000_000_000_000_123)
	one := transport.Transfer{Peer: 3, Lane: "receive 0", Size: 512,
		Steps: []transport.Step{{Name: "wait", Begin: then + 1500},
			{Name: "copy", Begin: then + 2000}}, End: then + 2750}
	two := one
	two.Peer = 4
	first := transport.Transfer{Lane: "send 1",
		Steps: []transport.Step{{Name: "send", Begin: then}}, End: then + 1}
	var out bytes.Buffer
	n, err := ChromeTrace(&out, []Trace{{"tcpx", []record.ThreadTrace{
		{Thread: record.Thread{Client: -1}, Transfers: []transport.Transfer{one, one, two}},
		{Thread: record.Thread{Rank: 1, Daemon: -1}, Transfers: []transport.Transfer{first}},
	}}})
	require.NoError(t, err)
	require.Equal(t, 4, n)
	var got struct{ TraceEvents []traceEvent }
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	named := func(name string, process, thread int, text string) traceEvent {
		return traceEvent{Phase: "M", Name: name, Process: process, Thread: thread,
			Args: map[string]any{"name": text}}
	}
	step := func(name string, process, thread int, begin, duration float64, bytes int) traceEvent {
		return traceEvent{Phase: "X", Name: name, Process: process, Thread: thread, Begin: begin,
			Duration: duration, Args: map[string]any{"bytes": float64(bytes)}}
	}
	require.Equal(t, []traceEvent{
		named("process_name", 1, 0, "tcpx, daemon 0 of rank 0"),
		named("thread_name", 1, 1, "connection 3, receive 0"),
		step("wait", 1, 1, 1.5, 0.5, 512), step("copy", 1, 1, 2, 0.75, 512),
		step("wait", 1, 1, 1.5, 0.5, 512), step("copy", 1, 1, 2, 0.75, 512),
		named("thread_name", 1, 2, "connection 4, receive 0"),
		step("wait", 1, 2, 1.5, 0.5, 512), step("copy", 1, 2, 2, 0.75, 512),
		named("process_name", 2, 0, "tcpx, client 0 of rank 1"),
		named("thread_name", 2, 3, "connection 0, send 1"),
		step("send", 2, 3, 0, 0.001, 0),
	}, got.TraceEvents)
}
