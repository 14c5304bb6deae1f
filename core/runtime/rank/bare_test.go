package rank

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// Threads call each other without the harness, one call at a time and several, in both kinds of
// connections, and the next window misses nothing.
func TestProbeOfTheTransport(t *testing.T) {
	for _, topology := range []string{config.TopologyClientServer, config.TopologyMeshProxied} {
		t.Run(topology, func(t *testing.T) {
			cfg := testConfig()
			cfg.Topology, cfg.InFlight = topology, 8
			ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
			near, far := record.Thread{Rank: 1, Daemon: -1, Client: 0},
				record.Thread{Daemon: 0, Client: -1}
			if cfg.Proxied() {
				near = record.Thread{Rank: 1, Daemon: 0, Client: -1}
			}
			probe := func(kind transport.ProbeKind) transport.Floor {
				p := transport.Probe{Kind: kind, Duration: 5 * time.Millisecond, Forth: 40,
					Back: 20, InFlight: 8}
				end := follow(t, ranks[0], record.Probe{Near: far, Far: near, Probe: p})
				p.Initiate = true
				reading, err := ranks[1].Probe(t.Context(),
					record.Probe{Near: near, Far: far, Probe: p})
				require.NoError(t, err)
				end()
				require.Positive(t, reading.Samples)
				return reading
			}
			trip := probe(record.ProbeTransport)
			require.Positive(t, trip.RoundTrip)
			require.Zero(t, trip.PerOp)
			rate := probe(record.ProbeTransportRate)
			require.Positive(t, rate.PerOp)
			require.Zero(t, rate.RoundTrip)

			first, others, err := runAll(t, ranks, record.Window{Duration: 20 * time.Millisecond,
				SampleEvery: 1})
			require.NoError(t, err)
			served, issued := uint64(0), uint64(0)
			for _, r := range append(others, first) {
				for _, d := range r.Daemons {
					served += d.Served
				}
				for _, c := range r.Clients {
					issued += c.Issued
				}
			}
			require.Positive(t, issued)
			if !cfg.Proxied() {
				require.Equal(t, issued, served)
			}
		})
	}
}

// follow starts the called side of a probe, and returns a function that ends it.
func follow(t *testing.T, r *Rank, probe record.Probe) (end func()) {
	answer := make(chan error, 1)
	go func() {
		_, err := r.Probe(t.Context(), probe)
		answer <- err
	}()
	return func() {
		require.NoError(t, r.Advance(t.Context(), record.StateStopped))
		require.NoError(t, <-answer)
	}
}

// A call of a probe that failed is answered in the next probe, and no window begins before that.
func TestUnansweredProbe(t *testing.T) {
	cfg := testConfig()
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	near, far := record.Thread{Rank: 1, Daemon: -1}, record.Thread{Client: -1}
	p := transport.Probe{Kind: record.ProbeTransport, Duration: time.Millisecond, Forth: 8, Back: 8}
	lead := p
	lead.Initiate = true
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := ranks[1].Probe(ctx, record.Probe{Near: near, Far: far, Probe: lead})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	window := record.Window{Duration: 20 * time.Millisecond, SampleEvery: 1}
	_, err = ranks[1].Run(t.Context(), window, func() {}, func(record.Progress) {})
	require.ErrorContains(t, err, "unanswered calls of a probe (1)")

	end := follow(t, ranks[0], record.Probe{Near: far, Far: near, Probe: p})
	_, err = ranks[1].Probe(t.Context(), record.Probe{Near: near, Far: far, Probe: lead})
	require.NoError(t, err)
	end()
	first, others, err := runAll(t, ranks, window)
	require.NoError(t, err)
	for _, r := range append(others, first) {
		for _, d := range r.Daemons {
			require.Zero(t, d.Rejected)
		}
		for _, c := range r.Clients {
			require.Empty(t, c.Failures)
		}
	}
}

// A probe whose other side does not take part ends with its context.
func TestProbeOfTheTransportAlone(t *testing.T) {
	ranks := cluster(t, memory.NewDriver(), testConfig(), config.IdleYield)
	for _, initiate := range []bool{true, false} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := ranks[1].Probe(ctx, record.Probe{Near: record.Thread{Rank: 1, Daemon: -1},
			Far: record.Thread{Client: -1},
			Probe: transport.Probe{Kind: record.ProbeTransport, Initiate: initiate,
				Duration: time.Minute}})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}
