package rank

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// ofMedium gives a transport another medium and no Prober.
type ofMedium struct {
	transport.Driver
	medium string
}

func (d ofMedium) Open(ctx context.Context, cfg transport.Config) (transport.Transport, error) {
	tr, err := d.Driver.Open(ctx, cfg)
	return mediumTransport{tr, d.medium}, err
}

type mediumTransport struct {
	transport.Transport
	medium string
}

func (t mediumTransport) Properties() transport.Properties {
	p := t.Transport.Properties()
	p.Medium = t.medium
	return p
}

func (t mediumTransport) NewWorker(index int) (transport.Worker, error) {
	w, err := t.Transport.NewWorker(index)
	return struct{ transport.Worker }{w}, err
}

// probePair probes between two threads and returns the caller's reading.
func probePair(t *testing.T, ranks []*Rank, caller, server record.Thread,
	probe transport.Probe) (transport.Floor, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	far := make(chan error, 1)
	go func() {
		reading, err := ranks[server.Rank].Probe(ctx,
			record.Probe{Near: server, Far: caller, Probe: probe})
		if err == nil && reading != (transport.Floor{}) {
			t.Errorf("the other side returned %+v", reading)
		}
		far <- err
	}()
	lead := probe
	lead.Initiate = true
	reading, err := ranks[caller.Rank].Probe(ctx, record.Probe{Near: caller, Far: server,
		Probe: lead})
	other := <-far
	if err == nil {
		require.NoError(t, other)
	} else {
		require.Error(t, other)
	}
	return reading, err
}

func TestRuntimeProbes(t *testing.T) {
	cfg := testConfig()
	server, caller := record.Thread{Rank: 0, Daemon: 0, Client: -1},
		record.Thread{Rank: 1, Daemon: -1, Client: 0}
	for _, medium := range []string{transport.MediumMemory, transport.MediumTCP} {
		ranks := cluster(t, ofMedium{memory.NewDriver(), medium}, cfg,
			config.IdleYield)
		for _, kind := range []transport.ProbeKind{record.ProbeDistance, transport.ProbeMedium,
			transport.ProbeRate, transport.ProbeLibrary} {
			f, err := probePair(t, ranks, caller, server,
				transport.Probe{Kind: kind, Duration: time.Millisecond, Forth: 16, Back: 48,
					InFlight: 8})
			if kind == transport.ProbeLibrary || medium != transport.MediumMemory &&
				kind != record.ProbeDistance {
				require.ErrorIs(t, err, transport.ErrUnsupported, "%s %s", medium, kind)
				continue
			}
			require.NoError(t, err, "%s %s", medium, kind)
			require.Positive(t, f.RoundTrip+f.PerOp, "%s %s", medium, kind)
		}
	}
}

func TestSharedPairs(t *testing.T) {
	for _, topology := range []string{config.TopologyClientServer, config.TopologyMeshDirect,
		config.TopologyMeshProxied} {
		cfg := testConfig()
		cfg.Topology, cfg.Ranks, cfg.Daemons, cfg.Clients = topology, 3, 2, 2
		ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
		used := map[any]bool{}
		pairs := 0
		for r := range ranks {
			for _, caller := range ranks[r].threads {
				for _, other := range ranks {
					for _, server := range other.threads {
						if _, err := ranks[r].wiring().Peer(caller.id, server.id); err != nil ||
							!server.id.IsDaemon() || caller.id.IsDaemon() && !cfg.Proxied() {
							continue
						}
						word, near, missing := ranks[r].shared.pair(caller.id, server.id)
						require.Empty(t, missing)
						theirs, far, missing := other.shared.pair(caller.id, server.id)
						require.Empty(t, missing)
						word.Add(1)
						near.Control.Add(1)
						require.EqualValues(t, 1, theirs.Load(), "%v calls %v", caller.id,
							server.id)
						require.EqualValues(t, 1, far.Control.Load(), "%v calls %v", caller.id,
							server.id)
						require.False(t, used[theirs])
						used[theirs] = true
						pairs++
					}
				}
			}
		}
		require.Equal(t, map[string]int{
			config.TopologyClientServer: 2 * 2 * 2, config.TopologyMeshDirect: 3 * 2 * 3 * 2,
			config.TopologyMeshProxied: 3 * 2 * 2,
		}[topology], pairs)
		memory, missing := ranks[0].shared.daemon(record.Thread{Rank: 0, Daemon: 1, Client: -1})
		require.Empty(t, missing)
		require.Len(t, memory, daemonMemory)
		require.Equal(t, make([]byte, daemonMemory), memory)
		word, _, missing := ranks[0].shared.pair(record.Thread{Rank: 9, Daemon: -1},
			record.Thread{Rank: 0, Client: -1})
		require.Nil(t, word)
		require.NotEmpty(t, missing)
	}
}

func TestSharedMissing(t *testing.T) {
	cfg := testConfig()
	s, address := newShared(cfg, 0)
	defer func() { require.NoError(t, s.close()) }()
	var a sharedAddress
	require.NoError(t, json.Unmarshal(address, &a))
	edit := func(f func(*sharedAddress)) []byte {
		b := a
		f(&b)
		encoded, err := json.Marshal(b)
		require.NoError(t, err)
		return encoded
	}
	other, err := shm.Create("test", a.Ref.Size+4096, shm.Memfd)
	require.NoError(t, err)
	defer other.Close()
	for _, c := range []struct {
		address []byte
		reason  string
	}{
		{nil, "shares no memory"},
		{[]byte("{"), "the address of its shared memory"},
		{edit(func(a *sharedAddress) { a.BootID = "x" }), "another host"},
		{edit(func(a *sharedAddress) { a.Ref.Size = 1 }), "1 bytes and not"},
		{edit(func(a *sharedAddress) { a.Ref.PID = 1 << 22 }), "mapping shared memory"},
		{edit(func(a *sharedAddress) { a.Ref = other.Ref(); a.Ref.Size -= 4096 }),
			"not a segment of"},
		{edit(func(a *sharedAddress) { a.Identity[3]++ }), "another namespace"},
	} {
		caller, none := newShared(cfg, 1)
		require.Nil(t, none)
		caller.connect([]record.RankWorkers{{Rank: 0, Shared: c.address}, {Rank: 7}})
		_, _, missing := caller.pair(record.Thread{Rank: 1, Daemon: -1}, record.Thread{Client: -1})
		require.Contains(t, missing, c.reason)
		_, missing = caller.daemon(record.Thread{Client: -1})
		require.Contains(t, missing, c.reason)
		require.NoError(t, caller.close())
	}
}

// TestSharedIsNotTrusted: whatever another rank writes into the shared memory, a probe ends, at the
// latest with its context.
func TestSharedIsNotTrusted(t *testing.T) {
	ranks := cluster(t, ofMedium{memory.NewDriver(), transport.MediumMemory},
		testConfig(), config.IdleYield)
	server, caller := record.Thread{Rank: 0, Daemon: 0, Client: -1},
		record.Thread{Rank: 1, Daemon: -1, Client: 0}
	segment, _ := ranks[0].shared.segment(0)
	for _, kind := range []transport.ProbeKind{record.ProbeDistance, transport.ProbeMedium,
		transport.ProbeRate} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		var all sync.WaitGroup
		for _, near := range []record.Thread{server, caller} {
			all.Go(func() {
				far := server
				if near == server {
					far = caller
				}
				_, _ = ranks[near.Rank].Probe(ctx,
					record.Probe{Near: near, Far: far, Probe: transport.Probe{
						Kind: kind, Initiate: near == caller, Duration: time.Second, Forth: 10,
						Back: 20, InFlight: 4}})
			})
		}
		for ctx.Err() == nil {
			shm.Word64(segment, rand.IntN(ranks[0].shared.layout.forth/8)*8).Store(rand.Uint64())
			shm.Word64(segment, ranks[0].shared.layout.forth+rand.IntN(512)*8).Store(rand.Uint64())
			shm.Word64(segment, ranks[0].shared.layout.back+rand.IntN(512)*8).Store(rand.Uint64())
		}
		all.Wait()
		cancel()
	}
	// Threads whose probe has ended with its context go on for a moment, and would take messages
	// of the next one.
	for _, r := range ranks {
		require.NoError(t, r.each(t.Context(), func(*thread) error { return nil }))
	}
	_, err := probePair(t, ranks, caller, server, transport.Probe{Kind: transport.ProbeMedium,
		Duration: time.Millisecond})
	require.NoError(t, err)
}
