package amlibtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/amlib"
	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// Pair is a worker and its peer 0, which is a queue alone, so that the test can send what no
// transport sends.
type Pair struct {
	Worker transport.Worker
	Own    *amlib.Queue // of Worker
	Window int          // calls in flight of Worker
	Peer   *amlib.Queue
}

// Hostile requires that a peer that breaks the protocol is cut off. connect makes a new Pair. The
// queue of its peer has room for more than Window calls.
func Hostile(t *testing.T, connect func(t *testing.T) Pair) {
	t.Run("reply to no call", func(t *testing.T) {
		p := connect(t)
		require.True(t, p.Peer.Enqueue(0, amlib.Reply, 1, nil))
		p.RequireCutOff(t, 0)
	})
	t.Run("more calls than the window", func(t *testing.T) {
		p := connect(t)
		for i := range p.Window + 1 {
			require.True(t, p.Peer.Enqueue(0, amlib.Call, uint64(i), []byte("call")))
		}
		p.RequireCutOff(t, p.Window)
	})
	for name, kind := range map[string]amlib.Kind{"unknown kind": amlib.Lost, "no kind": 0} {
		t.Run(name, func(t *testing.T) {
			p := connect(t)
			require.True(t, p.Peer.Enqueue(0, kind, 1, nil))
			p.RequireCutOff(t, 0)
		})
	}
	t.Run("a flood that is never polled", func(t *testing.T) {
		p := connect(t)
		for range 1000 {
			for p.Peer.Enqueue(0, amlib.Call, 1, []byte("flood")) {
			}
			p.Peer.Flush()
			p.Peer.Progress()
			p.Own.Progress() // without taking anything
		}
		p.RequireCutOff(t, p.Window)
	})
	t.Run("messages of a probe without one", func(t *testing.T) {
		p := connect(t)
		for kind := amlib.Reply + 2; kind < amlib.Lost; kind++ {
			require.True(t, p.Peer.Enqueue(0, kind, 1<<40, nil))
		}
		require.True(t, p.Peer.Enqueue(0, amlib.Call, 9, []byte("honest")))
		p.Peer.Flush()
		events := make([]transport.Event, 1)
		for polls := 0; ; polls++ {
			require.Less(t, polls, 1_000_000, "nothing arrived")
			p.Peer.Progress()
			n, err := p.Worker.Poll(events)
			require.NoError(t, err)
			if n == 1 {
				break
			}
		}
		require.Equal(t, transport.EventRequest, events[0].Kind)
		require.Equal(t, "honest", string(events[0].Payload))
	})
}

// RequireCutOff flushes the peer's queue and expects so many events, then ErrCorrupt, the loss and
// nothing else.
func (p Pair) RequireCutOff(t *testing.T, events int) {
	t.Helper()
	p.Peer.Flush()
	polled := make([]transport.Event, 16)
	for polls := 0; ; polls++ {
		require.Less(t, polls, 1_000_000, "the peer was not cut off")
		p.Peer.Progress()
		n, err := p.Worker.Poll(polled)
		events -= n
		if err != nil {
			require.ErrorIs(t, err, transport.ErrCorrupt)
			break
		}
	}
	require.Zero(t, events, "messages before the wrong one")
	require.Equal(t, transport.EventPeerLost, fabrictest.Next(t, p.Worker).Kind)
	n, err := p.Worker.Poll(polled)
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = p.Worker.Post([]transport.Op{{Kind: transport.OpCall}})
	require.ErrorIs(t, err, transport.ErrPeerDown)
}

// RequireDeaf requires that the worker takes no message of a peer that is not whom it claims to be,
// and stays connected.
func (p Pair) RequireDeaf(t *testing.T) {
	t.Helper()
	for kind := range amlib.Lost {
		require.True(t, p.Peer.Enqueue(0, kind, 1, []byte("guessed")))
	}
	p.Peer.Flush()
	for range 100 {
		p.Peer.Progress()
		n, err := p.Worker.Poll(make([]transport.Event, 16))
		require.NoError(t, err)
		require.Zero(t, n)
	}
	n, err := p.Worker.Post([]transport.Op{{Kind: transport.OpCall}})
	require.NoError(t, err, "the peer is lost")
	require.Equal(t, 1, n)
}
