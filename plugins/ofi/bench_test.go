package ofi

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// TestLists posts lists of pages, over each provider. Those of one size behind each other share a
// message, and all come back as they were sent.
func TestLists(t *testing.T) {
	needLibrary(t)
	for _, provider := range []string{"shm", "tcp"} {
		sizes := []int{9000, 9000, 9000, 9000, 9000, 9000, 9008, 9001, 9001, 100, 9000, 9000}
		_, made, _ := fabrictest.Connect(t, Driver{}, fabrictest.Rank{InFlight: len(sizes),
			MaxPayload: 9008, Options: map[string]string{optionProvider: provider}})
		w := made.(*worker)
		calls, events := make([]transport.Op, len(sizes)), make([]transport.Event, len(sizes))
		for i, size := range sizes {
			calls[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i),
				Payload: bytes.Repeat([]byte{byte(i + 1)}, size)}
		}
		for range 100 {
			n, err := w.Post(calls)
			require.NoError(t, err)
			require.Len(t, calls, n)
			require.NoError(t, w.Flush())
			for answered := 0; answered < len(calls); {
				n, err := w.Poll(events)
				require.NoError(t, err)
				for _, e := range events[:n] {
					require.Equal(t, transport.EventResponse, e.Kind)
					require.Equal(t, calls[e.Token].Payload, e.Payload, "call %d", e.Token)
				}
				answered += n
			}
		}
		require.Positive(t, transport.StatValue(w.ReadStats(nil), "gathered"), provider)
	}
}

// BenchmarkPages sends lists of pages, as a hand-off does, through two workers on one thread, and
// reports the processor time of a page with its reply. In a list of one, nothing is gathered.
func BenchmarkPages(b *testing.B) {
	needLibrary(b)
	for _, provider := range []string{"shm", "tcp"} {
		for _, page := range []int{8 << 10, 32 << 10} {
			for _, list := range []int{1, 16} {
				name := fmt.Sprintf("%s/%dKiB/list=%d", provider, page>>10, list)
				b.Run(name, func(b *testing.B) { pages(b, provider, page+48, list) })
			}
		}
	}
}

func pages(b *testing.B, provider string, size, list int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var pair [2]transport.Worker
	for i := range pair {
		tr, w, err := open(fabrictest.Rank{InFlight: list, MaxPayload: size,
			Options: map[string]string{optionProvider: provider}})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, tr.Close()) })
		pair[i] = w
	}
	require.NoError(b, pair[0].Connect(b.Context(), 0, pair[1].Address()))
	require.NoError(b, pair[1].Connect(b.Context(), 0, pair[0].Address()))
	ops, events := make([]transport.Op, list), make([]transport.Event, list)
	move := func(from, to transport.Worker) {
		n, err := from.Post(ops)
		require.NoError(b, err)
		require.Equal(b, list, n)
		require.NoError(b, from.Flush())
		for got := 0; got < list; {
			n, err := to.Poll(events)
			if err != nil {
				b.Fatal(err)
			}
			for i := range n {
				ops[got].Token = events[i].Token
				got++
			}
			if n == 0 {
				if _, err := from.Poll(events[:0]); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	memory := make([]byte, list*size)
	round := func() {
		for i := range ops {
			ops[i].Kind, ops[i].Payload = transport.OpCall, memory[i*size:(i+1)*size]
		}
		move(pair[0], pair[1])
		for i := range ops {
			ops[i].Kind, ops[i].Payload = transport.OpReply, memory[:32]
		}
		move(pair[1], pair[0])
	}
	round()
	begin := processorTime(b)
	b.ResetTimer()
	for done := 0; done < b.N; done += list {
		round()
	}
	b.ReportMetric(float64(processorTime(b)-begin)/float64(b.N), "cpu-ns/page")
}

// processorTime returns the processor time of this thread in nanoseconds.
func processorTime(b *testing.B) int64 {
	var used unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used))
	return used.Nano()
}
