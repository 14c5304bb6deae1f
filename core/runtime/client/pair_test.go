package client

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/daemon"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring/wiringtest"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// pair is a client and the daemon that answers it, on the test's thread.
type pair struct {
	*Client
	daemon *daemon.Daemon
	state  loop.State
}

// newPair returns a pair. client and server wrap the worker of their side, unless they are nil.
func newPair(t *testing.T, cfg config.Config,
	client, server func(transport.Worker) transport.Worker) *pair {
	ranks := wiringtest.Connect(t, memory.NewDriver(), cfg)
	near, far := ranks[1].Clients[0], ranks[0].Daemons[0]
	if client != nil {
		near = client(near)
	}
	if server != nil {
		far = server(far)
	}
	d, err := daemon.New(ranks[0].Wiring, 0, config.IdleYield, far)
	require.NoError(t, err)
	c, err := New(ranks[1].Wiring, 0, config.IdleYield, near)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(c.Close(), d.Close())) })
	if !cfg.Stored() {
		memory := make([]byte, loop.CallTraceMemory)
		d.ShareTrace(loop.NewCallTrace(memory))
		c.ShareTrace(ranks[1].DaemonPeer(0, 0), loop.NewCallTrace(memory))
	}
	return &pair{Client: c, daemon: d}
}

// begin begins a window that records one latency of sampleEvery, and its load.
func (p *pair) begin(t *testing.T, sampleEvery int) {
	p.Begin(Window{SampleEvery: sampleEvery, Duration: time.Hour})
	require.NoError(t, p.Load(p.clock.Now()))
}

// until runs iterations of both until done.
func (p *pair) until(t *testing.T, done func() bool) {
	p.state.Advance(record.StateMeasuring)
	for !done() {
		_, err := p.Iterate(&p.state, 1)
		require.NoError(t, errors.Join(err, p.daemon.Step()))
	}
}

// untilOps is until for a number of operations in the window.
func (p *pair) untilOps(t *testing.T, ops uint64) {
	p.until(t, func() bool { return p.counts.ops >= ops })
}

// drain ends the calls in flight.
func (p *pair) drain(t *testing.T) {
	for p.inFlight > 0 {
		require.NoError(t, errors.Join(p.drainOnce(), p.daemon.Step()))
	}
}

// window runs a window until done, with the client on a goroutine.
func (p *pair) window(t *testing.T, sampleEvery int, done func() bool) (record.ClientReport,
	error) {
	p.Begin(Window{SampleEvery: sampleEvery, Duration: time.Hour})
	var s loop.State
	s.Advance(record.StateMeasuring)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(&s, func() {}, func() {}) }()
	for {
		select {
		case err := <-ended:
			return p.Report(record.ThreadReport{}), err
		default:
			require.NoError(t, p.daemon.Step())
			if done() {
				s.Advance(record.StateDraining)
			}
			runtime.Gosched()
		}
	}
}

// windowOf is window for a number of operations.
func (p *pair) windowOf(t *testing.T, sampleEvery int, ops uint64) record.ClientReport {
	r, err := p.window(t, sampleEvery, func() bool { return p.live.ops.Load() >= ops })
	require.NoError(t, err)
	return r
}
