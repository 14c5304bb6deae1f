package rdma

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// fakeEnd is a loop without a device. A message takes trip, or a share of it if several are under
// way.
type fakeEnd struct {
	trip     time.Duration
	results  []loopResult // of the first calls; later ones succeed
	messages loopMessages
	slices   []loopSlice
	stopped  chan struct{}
}

func (e *fakeEnd) begin(_ PeerHandle, m loopMessages) {
	e.messages, e.stopped = m, make(chan struct{})
}

func (e *fakeEnd) stop() { close(e.stopped) }

func (e *fakeEnd) next() loopResult {
	select {
	case <-e.stopped:
		return loopStopped
	default:
	}
	if len(e.results) == 0 {
		return loopDone
	}
	r := e.results[0]
	if len(e.results) > 1 || r != loopLost {
		e.results = e.results[1:]
	} else {
		time.Sleep(time.Millisecond) // the last loss lasts
	}
	return r
}

func (e *fakeEnd) lead(s loopSlice) (loopResult, int, time.Duration, error) {
	e.slices = append(e.slices, s)
	r := e.next()
	if r != loopDone {
		return r, 0, 0, nil
	}
	ops := min(s.maximum, 1000)
	return r, ops, time.Duration(ops) * e.trip / time.Duration(s.window), nil
}

func (e *fakeEnd) follow(time.Duration) (loopResult, uint32, error) { return e.next(), 7, nil }

func TestLoop(t *testing.T) {
	probe := transport.Probe{Initiate: true, Duration: time.Millisecond, Forth: 84, Back: 2 * 1000,
		InFlight: 32}
	for _, c := range []struct {
		kind    transport.ProbeKind
		results []loopResult
		want    transport.Floor
		window  int
	}{
		{kind: transport.ProbeMedium, want: transport.Floor{Name: "UD ping-pong", RoundTrip: 4000},
			window: 1},
		// The window of 8 datagrams has 2 messages of 3.
		{kind: transport.ProbeRate, want: transport.Floor{Name: "UD stream", PerOp: 2000},
			window: 2},
		{kind: transport.ProbeMedium, results: []loopResult{loopLost, loopForeign, loopLost,
			loopDone},
			want: transport.Floor{Name: "UD ping-pong", RoundTrip: 4000}, window: 1},
	} {
		end := &fakeEnd{trip: 4 * time.Microsecond, results: c.results}
		checks := 0
		l := &Loop{config: LoopConfig{Name: "UD", MTU: 1000, Window: 8, MaxMessage: 8000}, end: end}
		probe.Kind = c.kind
		f, err := l.Probe(t.Context(), 0, probe, func() error { checks++; return nil })
		require.NoError(t, err)
		require.Positive(t, f.Samples)
		f.Samples = 0
		require.Equal(t, c.want, f)
		require.Equal(t, max(len(c.results)-1, 0), checks)
		last := len(end.slices) - 1
		require.True(t, end.slices[last].farewell)
		require.Equal(t, c.window, end.slices[last-1].window)
		require.Equal(t, loopMessages{parts: 1, size: 100, last: 100, expected: 3, nonce: l.last},
			end.messages)
		require.NotZero(t, l.last)
	}
}

func TestLoopFollows(t *testing.T) {
	end := &fakeEnd{results: []loopResult{loopLost, loopForeign, loopDone}}
	l := &Loop{config: LoopConfig{MTU: 1000, Window: 8, MaxMessage: 8000}, end: end}
	f, err := l.Probe(t.Context(), 0, transport.Probe{Kind: transport.ProbeRate, Forth: 84,
		Back: 2000}, func() error { return nil })
	require.NoError(t, err)
	require.Zero(t, f)
	require.Equal(t, loopMessages{parts: 3, size: 1000, last: 16, expected: 1}, end.messages)
	require.EqualValues(t, 7, l.last, "later messages of this probe are ignored")
}

func TestLoopEnds(t *testing.T) {
	for _, initiate := range []bool{true, false} {
		for _, kind := range []transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate} {
			l := &Loop{config: LoopConfig{Window: 8, MaxMessage: 100},
				end: &fakeEnd{results: []loopResult{loopLost}}}
			probe := transport.Probe{Kind: kind, Initiate: initiate, Duration: time.Hour}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := l.Probe(ctx, 0, probe, func() error { return nil })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
			broken := errors.New("broken")
			_, err = l.Probe(t.Context(), 0, probe, func() error { return broken })
			require.ErrorIs(t, err, broken)
		}
		for _, probe := range []transport.Probe{
			{Kind: transport.ProbeLibrary}, {Kind: transport.ProbeRate, Forth: 85},
			{Kind: transport.ProbeMedium, Back: -1},
		} {
			l := &Loop{config: LoopConfig{MaxMessage: 100}, end: &fakeEnd{}}
			probe.Initiate = initiate
			_, err := l.Probe(t.Context(), 0, probe, func() error { return nil })
			require.ErrorIs(t, err, transport.ErrUnsupported)
		}
	}
}

// TestLoopIsPatient checks that long messages over RC, which loses none, do not count as lost.
func TestLoopIsPatient(t *testing.T) {
	for mtu, want := range map[int]time.Duration{0: loopMaxPatience, 1000: loopPatience} {
		end := &fakeEnd{trip: time.Microsecond}
		l := &Loop{config: LoopConfig{MTU: mtu, Window: 8, MaxMessage: 8000}, end: end}
		_, err := l.Probe(t.Context(), 0, transport.Probe{Kind: transport.ProbeRate, Initiate: true,
			InFlight: 8}, func() error { return nil })
		require.NoError(t, err)
		require.Equal(t, loopPatience, end.slices[0].patience, "until the other side has joined")
		require.Equal(t, want, end.slices[1].patience)
	}
}

func TestIsProbe(t *testing.T) {
	require.True(t, IsProbe(0x8000_0000))
	require.True(t, IsProbe(0xbfff_ffff))
	require.False(t, IsProbe(0xffff_ffff), "the farewell of copyrpc")
	require.False(t, IsProbe(0x7fff_ffff))
}

// TestLoopWithoutC: a queue pair that is not of verbs has no loop in C.
func TestLoopWithoutC(t *testing.T) {
	_, err := NewLoop(struct{ QueuePair }{}, LoopConfig{})
	require.ErrorIs(t, err, transport.ErrUnsupported)
}
