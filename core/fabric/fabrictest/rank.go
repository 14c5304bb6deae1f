package fabrictest

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// Patience is how long [Next] waits for an event. Processors of a busy machine may be away for
// seconds.
const Patience = 30 * time.Second

// Rank is the configuration of an open transport with one worker.
type Rank struct {
	Options map[string]string
	// Peers, InFlight and MaxPayload go into [transport.Config]; 0 is 1, 8 and 4096.
	Peers, InFlight, MaxPayload int
	// Headless makes [Echo] answer without payloads. A payload of a call lasts until the next Poll,
	// so Echo cannot poll while it waits for room for a reply with it.
	Headless bool
}

// Open opens a transport of the driver with its worker.
func (r Rank) Open(driver transport.Driver) (transport.Transport, transport.Worker, error) {
	options, err := transport.ParseOptions(driver.Info().Options, r.Options)
	if err != nil {
		return nil, nil, err
	}
	tr, err := driver.Open(context.Background(),
		transport.Config{Workers: 1, Peers: max(r.Peers, 1),
			InFlight: cmp.Or(r.InFlight, 8), MaxPayload: cmp.Or(r.MaxPayload, 4096),
			Options: options})
	if err != nil {
		return nil, nil, err
	}
	w, err := tr.NewWorker(0)
	if err != nil {
		return nil, nil, errors.Join(err, tr.Close())
	}
	return tr, w, nil
}

// EchoRole is the name of the role [Echo] for [StartEcho].
const EchoRole = "echo"

// Echo returns the role of a rank of the driver. It sends its address, receives its peer's,
// connects and sends true. Then it answers each call with the call's payload until the peer is lost
// or the parent calls Close.
func Echo(driver transport.Driver) Role {
	return func(p *Parent) error {
		var r Rank
		if err := p.Config(&r); err != nil {
			return err
		}
		tr, w, err := r.Open(driver)
		if err != nil {
			return err
		}
		if err := p.Join(w); err != nil {
			return err
		}
		if err := answer(w, r.Headless, p); err != nil {
			return err
		}
		return tr.Close()
	}
}

// Join connects the worker of a child to the one for which the parent has called [Echoer.Connect].
func (p *Parent) Join(w transport.Worker) error {
	if err := p.Send(w.Address()); err != nil {
		return err
	}
	var address []byte
	if err := p.Receive(&address); err != nil {
		return err
	}
	if err := w.Connect(context.Background(), 0, address); err != nil {
		return err
	}
	return p.Send(true)
}

// answer answers calls until the peer is lost or the parent ends.
func answer(w transport.Worker, headless bool, p *Parent) error {
	ended := p.Ended()
	waiter, _ := w.(transport.Waiter)
	events := make([]transport.Event, 64)
	var replies []transport.Op
	for !ended.Load() {
		n, err := w.Poll(events)
		if err != nil {
			return err
		}
		if n == 0 && waiter != nil && len(replies) == 0 {
			if err := waiter.Wait(time.Millisecond); err != nil {
				return err
			}
		}
		for _, e := range events[:n] {
			if e.Kind == transport.EventPeerLost {
				return nil
			}
			if headless {
				e.Payload = nil
			}
			replies = append(replies, transport.Op{Kind: transport.OpReply, Peer: e.Peer,
				Token: e.Token, Payload: e.Payload})
		}
		for len(replies) > 0 {
			taken, err := w.Post(replies)
			if err != nil {
				return err
			}
			replies = replies[:copy(replies, replies[taken:])]
			if err := w.Flush(); err != nil {
				return err
			}
			if headless {
				break
			}
		}
	}
	return nil
}

// Echoer is a child in the role [Echo], or in another role that calls [Parent.Join].
type Echoer struct {
	*Child
	Address []byte // of its worker
}

// StartEcho starts a child in the role [Echo].
func StartEcho(t testing.TB, r Rank, options ...func(*exec.Cmd)) *Echoer {
	t.Helper()
	return Meet(Start(t, EchoRole, r, options...))
}

// Meet receives the address of a child that calls [Parent.Join].
func Meet(c *Child) *Echoer {
	c.t.Helper()
	e := &Echoer{Child: c}
	c.Receive(&e.Address)
	return e
}

// Connect connects the worker and the child, which is its peer id.
func (e *Echoer) Connect(w transport.Worker, id transport.PeerID) {
	e.t.Helper()
	require.NoError(e.t, w.Connect(e.t.Context(), id, e.Address))
	e.Join(w.Address())
}

// Join sends the child an address, to which it connects.
func (e *Echoer) Join(address []byte) {
	e.t.Helper()
	e.Send(address)
	var connected bool
	e.Receive(&connected)
}

// Connect opens a rank in this process, which ends with the test, and connects its worker as peer 0
// to the one of a new child with the same configuration.
func Connect(t testing.TB, driver transport.Driver, r Rank, options ...func(*exec.Cmd)) (
	transport.Transport, transport.Worker, *Echoer) {
	t.Helper()
	tr, w, err := r.Open(driver)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	e := StartEcho(t, r, options...)
	e.Connect(w, 0)
	return tr, w, e
}

// Pair opens two ranks in this process, which end with the test, and connects their workers: each
// is the other's peer 0.
func Pair(t testing.TB, driver transport.Driver, r Rank) (a, b transport.Worker) {
	t.Helper()
	var workers [2]transport.Worker
	for i := range workers {
		tr, w, err := r.Open(driver)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		workers[i] = w
	}
	for i, w := range workers {
		require.NoError(t, w.Connect(context.Background(), 0, workers[1-i].Address()))
	}
	return workers[0], workers[1]
}

// Ports requires that a [Pair] states the same two ports from either end, by which the kernel may
// choose between routes.
func Ports(t *testing.T, driver transport.Driver, options map[string]string) {
	t.Helper()
	a, b := Pair(t, driver, Rank{Options: options, MaxPayload: 64})
	near, far := a.(transport.PathReader).ReadPaths(nil), b.(transport.PathReader).ReadPaths(nil)
	require.Len(t, near, 1)
	require.Len(t, far, 1)
	require.NotZero(t, near[0].LocalPort)
	require.NotZero(t, near[0].RemotePort)
	require.NotEqual(t, near[0].LocalPort, near[0].RemotePort)
	require.Equal(t, near[0].LocalPort, far[0].RemotePort)
	require.Equal(t, near[0].RemotePort, far[0].LocalPort)
}

// Post posts an op and flushes it.
func Post(t testing.TB, w transport.Worker, op transport.Op) {
	t.Helper()
	n, err := w.Post([]transport.Op{op})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, w.Flush())
}

// Call calls peer 0.
func Call(t testing.TB, w transport.Worker, token transport.Token, payload []byte) {
	t.Helper()
	Post(t, w, transport.Op{Kind: transport.OpCall, Token: token, Payload: payload})
}

// Next polls until there is an event, for at most [Patience].
func Next(t testing.TB, w transport.Worker) transport.Event {
	t.Helper()
	waiter, _ := w.(transport.Waiter)
	events := make([]transport.Event, 1)
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); {
		n, err := w.Poll(events)
		require.NoError(t, err)
		if n == 1 {
			return events[0]
		}
		if waiter != nil {
			require.NoError(t, waiter.Wait(time.Millisecond))
		}
	}
	require.FailNow(t, "nothing arrived", "in %v", Patience)
	panic("unreachable")
}
