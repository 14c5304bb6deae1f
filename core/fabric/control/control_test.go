package control

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

type worker struct {
	transport.Worker
	index int
}

func TestWorkers(t *testing.T) {
	s := NewWorkers[*worker]("test", 2)
	w, err := s.New(1, func() (*worker, error) { return &worker{index: 1}, nil })
	require.NoError(t, err)
	require.Equal(t, &worker{index: 1}, w)
	for _, index := range []int{-1, 1, 2} {
		_, err = s.New(index, func() (*worker, error) { t.Fatal("made"); return nil, nil })
		require.ErrorContains(t, err, "test: new worker: index")
	}
	broken := errors.New("broken")
	w, err = s.New(0, func() (*worker, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
	require.True(t, w == nil, "no typed nil")
	_, err = s.New(0, func() (*worker, error) { return &worker{}, nil })
	require.NoError(t, err, "an index whose worker could not be made stays free")

	calls := 0
	release := func(workers []*worker) error {
		calls++
		return Each(workers, func(w *worker) error {
			return errors.New(string(rune('0' + w.index)))
		})
	}
	require.EqualError(t, s.Close(release), "1\n0", "in the order of their making")
	require.NoError(t, s.Close(release))
	require.Equal(t, 1, calls)
	_, err = s.New(0, nil)
	require.ErrorIs(t, err, transport.ErrClosed)
}

func TestPeers(t *testing.T) {
	type peer struct{}
	peers := NewPeers[peer](3, 2, uint64(7))
	require.NoError(t, peers.Check(1, 8))
	require.Error(t, peers.Check(1, 7), "the worker's own")
	p := new(peer)
	peers.Add(1, 8, p, 10, nil)
	require.Equal(t, []*peer{nil, p}, peers.ByID)
	require.Same(t, p, peers.Get(1))
	require.Nil(t, peers.Get(0))
	require.Nil(t, peers.Get(5))
	require.Same(t, p, peers.Find(8))
	require.Nil(t, peers.Find(9))
	require.ErrorContains(t, peers.Check(1, 9), "already connected")
	require.ErrorIs(t, peers.Check(3, 9), transport.ErrUnsupported)
	require.ErrorContains(t, peers.Check(2, 8), "connected already")
	peers.Add(0, 9, new(peer), 10, nil)
	require.ErrorContains(t, peers.Check(2, 10), "opened for 2 peers")
	peers.Forget(8)
	require.Nil(t, peers.Find(8))
	require.NoError(t, peers.Check(2, 8))
	require.Same(t, p, peers.Get(1))
}

func TestLostPeersAreReportedOnceAndInOrder(t *testing.T) {
	lost := NewLostPeers(3)
	for _, id := range []transport.PeerID{2, 0, 1} {
		lost.Add(id)
	}
	events := make([]transport.Event, 2)
	require.Equal(t, 2, lost.Report(events))
	require.Equal(t, []transport.Event{{Kind: transport.EventPeerLost, Peer: 2},
		{Kind: transport.EventPeerLost, Peer: 0}}, events)
	require.Equal(t, 1, lost.Len())
	require.Equal(t, 0, lost.Report(nil))
	require.Equal(t, 1, lost.Report(events))
	require.Equal(t, transport.PeerID(1), events[0].Peer)
	require.Equal(t, 0, lost.Report(events))
	require.Zero(t, testing.AllocsPerRun(10, func() { lost.Add(1); lost.Report(events) }))
}

func TestErrors(t *testing.T) {
	const name = Name("test")
	require.NoError(t, name.Error("open", nil))
	require.NoError(t, name.PeerError("connect", 3, nil))
	require.EqualError(t, name.Error("open", errors.New("x")), "test: open: x")
	errs := name.PeerErrors(3)
	require.EqualError(t, errs.Down, "test: post peer 3: peer is down")
	require.ErrorIs(t, errs.NoCall, transport.ErrUnsupported)
	require.ErrorIs(t, errs.Corrupt, transport.ErrCorrupt)
}

func TestProbe(t *testing.T) {
	const name = Name("test")
	measure := func() (transport.Floor, error) { return transport.Floor{Samples: 1}, nil }
	_, err := name.Probe(3, true, true, measure)
	require.ErrorIs(t, err, transport.ErrClosed)
	_, err = name.Probe(3, false, false, measure)
	require.ErrorIs(t, err, transport.ErrPeerDown)
	floor, err := name.Probe(3, false, true, measure)
	require.NoError(t, err)
	require.Equal(t, 1, floor.Samples)
	_, err = name.Probe(3, false, true, func() (transport.Floor, error) {
		return transport.Floor{Samples: 1}, errors.New("x")
	})
	require.EqualError(t, err, "test: probe peer 3: the peer does not take part: x")
}

// TestAdmit checks which ops Post takes, and the errors for the others.
func TestAdmit(t *testing.T) {
	type peer struct{}
	const name = Name("test")
	peers := NewPeers[peer](4, 4, uint64(7))
	p, errs := new(peer), name.PeerErrors(2)
	op := func(id transport.PeerID, size int) *transport.Op {
		return &transport.Op{Peer: id, Payload: make([]byte, size)}
	}
	require.Nil(t, peers.Admit(op(2, 0)), "before Add")
	require.ErrorIs(t, peers.Refusal(name, op(2, 0)), transport.ErrPeerDown)
	peers.Add(2, 8, p, 10, &errs)
	require.Same(t, p, peers.Admit(op(2, 10)))
	require.Nil(t, peers.Admit(op(2, 11)))
	require.ErrorIs(t, peers.Refusal(name, op(2, 11)), transport.ErrTooLarge)
	for _, unknown := range []transport.PeerID{0, 3, 1 << 30} {
		require.Nil(t, peers.Admit(op(unknown, 0)))
		require.ErrorIs(t, peers.Refusal(name, op(unknown, 0)), transport.ErrPeerDown)
	}
	peers.Shut(2)
	require.Nil(t, peers.Admit(op(2, 0)))
	require.ErrorIs(t, peers.Refusal(name, op(2, 11)), transport.ErrPeerDown)
}

// TestClosedPeers checks that a closed table refuses ops and connections with ErrClosed.
func TestClosedPeers(t *testing.T) {
	const name = Name("test")
	peers := NewPeers[int](4, 4, uint64(7))
	errs := name.PeerErrors(2)
	peers.Add(2, 8, new(int), 10, &errs)
	require.False(t, peers.Closed())
	require.True(t, peers.Close())
	require.False(t, peers.Close(), "the second Close")
	require.True(t, peers.Closed())
	for _, id := range []transport.PeerID{2, 3} { // connected, unknown
		op := &transport.Op{Peer: id}
		require.Nil(t, peers.Admit(op))
		require.ErrorIs(t, peers.Refusal(name, op), transport.ErrClosed)
		require.ErrorIs(t, peers.Check(id, 9), transport.ErrClosed)
	}
}
