package rank

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// slowSetup takes longer than step for everything of the setup, and for the first call of each
// connection.
type slowSetup struct{ transport.Driver }

const step = 5 * time.Millisecond

func (d slowSetup) Open(ctx context.Context, cfg transport.Config) (transport.Transport, error) {
	time.Sleep(step)
	tr, err := d.Driver.Open(ctx, cfg)
	return slowTransport{tr}, err
}

type slowTransport struct{ transport.Transport }

func (t slowTransport) NewWorker(index int) (transport.Worker, error) {
	time.Sleep(step)
	w, err := t.Transport.NewWorker(index)
	return &slowWorker{Worker: w, called: map[transport.PeerID]bool{}}, err
}

func (slowTransport) ReadStats(dst []transport.Stat) []transport.Stat {
	return append(dst, transport.Stat{Name: transport.StatRegisteredBytes, Value: 1 << 20},
		transport.Stat{Name: transport.StatRegisterTime, Value: uint64(step)})
}

type slowWorker struct {
	transport.Worker
	called map[transport.PeerID]bool
}

func (w *slowWorker) Connect(ctx context.Context, peer transport.PeerID, address []byte) error {
	time.Sleep(step)
	return w.Worker.Connect(ctx, peer, address)
}

func (w *slowWorker) Post(ops []transport.Op) (int, error) {
	for i := range ops {
		if ops[i].Kind == transport.OpCall && !w.called[ops[i].Peer] {
			w.called[ops[i].Peer] = true
			time.Sleep(step)
		}
	}
	return w.Worker.Post(ops)
}

func TestSetupReport(t *testing.T) {
	cfg := testConfig()
	cfg.Ranks, cfg.Daemons, cfg.Clients = 3, 2, 2
	open := cfg
	open.Rate = 1000
	mesh := cfg
	mesh.Ranks, mesh.Topology = 2, config.TopologyMeshDirect
	for name, c := range map[string]struct {
		cfg                            config.Config
		caller                         int
		workers, connections, firstOne uint64 // of the caller
	}{
		"client-server": {cfg, 1, 2, 4, 4},
		"open loop":     {open, 1, 2, 4, 4},
		"mesh":          {mesh, 1, 4, 16, 8},
	} {
		t.Run(name, func(t *testing.T) {
			ranks := cluster(t, slowSetup{memory.NewDriver()}, c.cfg, config.IdleYield)
			var stopping sync.WaitGroup
			stopping.Go(func() { stopWhen(t, ranks, 1) }) // after the first calls
			server, others, err := runAll(t, ranks,
				record.Window{Warmup: true, Duration: time.Minute, SampleEvery: 1})
			stopping.Wait()
			require.NoError(t, err)
			require.NotNil(t, server.Setup)
			s := others[c.caller-1].Setup
			require.NotNil(t, s)
			require.GreaterOrEqual(t, s.OpenNS, uint64(step))
			require.GreaterOrEqual(t, s.WorkersNS, c.workers*uint64(step))
			require.Equal(t, uint64(1<<20), s.RegisteredBytes)
			require.Equal(t, uint64(step), s.RegisterNS)
			require.Equal(t, c.connections, s.Connections)
			require.GreaterOrEqual(t, s.ConnectNS, c.connections*uint64(step))
			require.GreaterOrEqual(t, s.ConnectMaxNS, uint64(step))
			require.GreaterOrEqual(t, s.ConnectAllNS, c.connections/c.workers*uint64(step))
			require.Equal(t, c.firstOne, s.FirstCalls)
			require.GreaterOrEqual(t, s.FirstCallNS, uint64(step))
			require.GreaterOrEqual(t, s.FirstCallMaxNS, s.FirstCallNS)

			later, _, err := runAll(t, ranks, record.Window{Duration: 10 * time.Millisecond,
				SampleEvery: 1})
			require.NoError(t, err)
			require.Nil(t, later.Setup, "the setup is reported once")
		})
	}
}

// Clients of mesh-proxied call no transport, and without a warm-up no call is known to be a first
// one.
func TestSetupWithoutFirstCalls(t *testing.T) {
	proxied := testConfig()
	proxied.Topology = config.TopologyMeshProxied
	for name, c := range map[string]struct {
		cfg    config.Config
		window record.Window
	}{
		"proxied": {proxied, record.Window{Warmup: true, Duration: 10 * time.Millisecond}},
		"without warm-up": {testConfig(), record.Window{Duration: 10 * time.Millisecond,
			SampleEvery: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			_, others, err := runAll(t, cluster(t, memory.NewDriver(), c.cfg,
				config.IdleYield), c.window)
			require.NoError(t, err)
			require.Zero(t, others[0].Setup.FirstCalls)
			require.Equal(t, uint64(1), others[0].Setup.Connections)
		})
	}
}
