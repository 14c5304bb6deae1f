package copyrpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// TestTenMillionRequests sends requests through one connection in both directions at once.
// No receive may be missing or lost, all credit must come back, and every reply must find
// room. Under the race detector it sends fewer.
func TestTenMillionRequests(t *testing.T) {
	requests := 10_000_000
	if fabrictest.Race {
		requests = 500_000
	}
	const inFlight = 32
	a, b := connected(t, transport.Config{InFlight: inFlight, MaxPayload: 64}, soft())
	sides := []*volume{newVolume(a), newVolume(b)}
	for sides[0].answered+sides[1].answered < requests { // both call and reply
		for _, s := range sides {
			require.NoError(t, s.step(inFlight))
		}
	}
	for _, s := range sides {
		for range 1000 {
			require.NoError(t, s.step(0))
			require.NoError(t, sides[0].step(0))
			require.NoError(t, sides[1].step(0))
		}
	}
	for _, s := range sides {
		w, p := s.w, s.w.peers.ByID[0]
		require.Zero(t, s.inFlight, "calls in flight")
		require.Zero(t, w.endpoint.device.ReceiverNotReady(), "receiver not ready")
		require.GreaterOrEqual(t, w.receivesPosted, w.settings.receives()*2/3, "receives posted")
		require.LessOrEqual(t, w.receivesPosted, w.settings.receives(), "receives posted")
		require.Equal(t, w.settings.calls, p.calls.Free(), "free call numbers")
		require.Zero(t, s.refused, "replies that found no room")
		require.Less(t, p.cursor.start-p.peerReleased, w.settings.ring/8+w.settings.allowance,
			"ring space that did not come back")
		require.LessOrEqual(t, p.sent-p.returned, uint32(w.settings.batches)/2,
			"receives that did not come back")
		require.LessOrEqual(t, w.counts.doorbells, w.counts.batches+w.counts.credits,
			"doorbells: at most one per flush and peer, and one per credit write")
	}
}

// volume is one side, which calls and answers.
type volume struct {
	*echoer
	ops                         []transport.Op
	inFlight, answered, refused int
}

func newVolume(w *worker) *volume {
	v := &volume{echoer: newEchoer(w), ops: make([]transport.Op, 64)}
	for i := range v.ops {
		v.ops[i] = transport.Op{Kind: transport.OpCall, Payload: make([]byte, i)}
	}
	return v
}

// step keeps up to maxInFlight calls in flight and answers requests.
func (v *volume) step(maxInFlight int) error {
	n, err := v.w.Post(v.ops[:max(maxInFlight-v.inFlight, 0)])
	if err != nil {
		return err
	}
	v.inFlight += n
	if err := v.w.Flush(); err != nil {
		return err
	}
	if n, err = v.w.Poll(v.events); err != nil {
		return err
	}
	replies := v.replies[:0]
	for i := range v.events[:n] {
		e := &v.events[i]
		if e.Kind == transport.EventResponse {
			v.inFlight--
			v.answered++
			continue
		}
		replies = append(replies, transport.Op{Kind: transport.OpReply, Peer: e.Peer,
			Token: e.Token, Payload: e.Payload})
	}
	n, err = v.w.Post(replies)
	v.refused += len(replies) - n
	if err != nil {
		return err
	}
	return v.w.Flush()
}
