package transporttest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var statsClauses = []clause{
	{name: "stats/names", run: statsNames, needs: []need{needsStats},
		says: "The counters have names of their own and help, the same each time."},
	{name: "stats/append", run: statsAppend, needs: []need{needsStats},
		says: "ReadStats appends to what it is given."},
	{name: "stats/grow", run: statsGrow, needs: []need{needsStats},
		says: "The values only grow."},
}

var probeClauses = []clause{
	{name: "probe/reading", run: probeReading, needs: []need{needsProber},
		says: "Of two sides that probe, the initiator gets the reading and the other a zero Floor."},
	{name: "probe/alone", run: probeAlone, needs: []need{needsProber},
		says: "A probe whose peer does not take part ends with its context, in an error."},
	{name: "probe/then-calls", run: probeThenCalls, needs: []need{needsProber},
		says: "A probe leaves nothing behind for the calls after it."},
}

func (n *node) stats() []transport.Stat {
	return n.worker.(transport.StatsReader).ReadStats(nil)
}

func statsNames(t *trial) {
	c, a, _ := t.pair(layout{})
	before := a.stats()
	seen := map[string]bool{}
	for _, s := range before {
		require.NotEmpty(t, s.Name, "a counter's name")
		require.False(t, seen[s.Name], "counter %q is there twice", s.Name)
		seen[s.Name] = true
		require.NotEmpty(t, s.Help, "the help of counter %q", s.Name)
	}
	a.call(0, pattern(1, 16))
	c.drain()
	after := a.stats()
	require.Len(t, after, len(before), "counters after a call")
	for i, s := range after {
		require.Equal(t, before[i].Name, s.Name, "the name of counter %d", i)
		require.Equal(t, before[i].Help, s.Help, "the help of counter %q", s.Name)
	}
}

func statsAppend(t *trial) {
	_, a, _ := t.pair(layout{})
	first := transport.Stat{Name: "first", Help: "not the transport's", Value: 7}
	both := a.worker.(transport.StatsReader).ReadStats([]transport.Stat{first})
	require.NotEmpty(t, both)
	require.Equal(t, first, both[0], "what ReadStats was to append to")
	require.Len(t, both, 1+len(a.stats()), "counters appended to one")
}

func statsGrow(t *trial) {
	c, a, _ := t.pair(layout{})
	last := a.stats()
	for i := range uint64(20) {
		a.call(0, pattern(i, 16))
		c.drain()
		for range 2 { // reading changes nothing either
			now := a.stats()
			for k, s := range now {
				require.GreaterOrEqual(t, s.Value, last[k].Value, "the value of counter %q", s.Name)
			}
			last = now
		}
	}
}

func (n *node) probe(ctx context.Context, initiate bool, d time.Duration) (transport.Floor, error) {
	return n.worker.(transport.Prober).Probe(ctx, 0, initiate, d)
}

// probeBoth probes between two nodes that know each other as peer 0.
func probeBoth(t *trial, initiator, other *node) {
	var reading, answer transport.Floor
	t.parallel(func() {
		var err error
		reading, err = initiator.probe(t.Context(), true, 5*time.Millisecond)
		require.NoError(t, err, "Probe of the initiator")
	}, func() {
		var err error
		answer, err = other.probe(t.Context(), false, 5*time.Millisecond)
		require.NoError(t, err, "Probe of the other side")
	})
	require.NotEmpty(t, reading.Name, "Floor.Name")
	require.Positive(t, reading.RoundTrip, "Floor.RoundTrip")
	require.Positive(t, reading.Samples, "Floor.Samples")
	require.GreaterOrEqual(t, reading.Bandwidth, 0.0, "Floor.Bandwidth")
	require.Zero(t, answer, "the Floor of the other side")
}

func probeReading(t *trial) {
	_, a, b := t.pair(layout{})
	probeBoth(t, a, b)
	probeBoth(t, b, a)
	probeBoth(t, b, a)
}

func probeAlone(t *trial) {
	_, a, b := t.pair(layout{})
	for _, initiate := range []bool{true, false} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		floor, err := a.probe(ctx, initiate, never)
		cancel()
		require.Error(t, err, "Probe of a side that is alone (initiate %v)", initiate)
		require.Zero(t, floor, "the Floor of a probe that failed")
		require.NoError(t, t.Context().Err(), "Probe outlived its context")
	}
	probeBoth(t, a, b)
}

func probeThenCalls(t *trial) {
	c, a, b := t.pair(layout{})
	for i := range uint64(3) {
		probeBoth(t, a, b)
		takesDepth(c, a)
		c.drain()
		b.call(0, pattern(i, 64))
		c.settle()
	}
}
