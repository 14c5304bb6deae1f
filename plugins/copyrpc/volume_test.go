package copyrpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// TestTenMillionRequests runs them through one connection, both ways at once: receives
// are never missing and none is lost, credit comes back, and every reply finds room. The
// race detector gets a part of it.
func TestTenMillionRequests(t *testing.T) {
	requests := 10_000_000
	if raceDetector {
		requests = 500_000
	}
	const inFlight = 32
	a, b := connected(t, transport.Config{InFlight: inFlight, MaxPayload: 64}, soft())
	sides := []*volume{newVolume(a), newVolume(b)}
	for sides[0].answered+sides[1].answered < requests {
		for _, s := range sides {
			require.NoError(t, s.turn(inFlight))
		}
	}
	for _, s := range sides {
		for range 1000 {
			require.NoError(t, s.turn(0))
			require.NoError(t, sides[0].turn(0))
			require.NoError(t, sides[1].turn(0))
		}
	}
	for _, s := range sides {
		w, p := s.w, s.w.peers[0]
		require.Zero(t, s.flying, "calls in flight")
		require.Zero(t, w.rank.device.ReceiverNotReady(), "receiver not ready")
		require.GreaterOrEqual(t, w.posts, w.settings.receives()*2/3, "receives posted")
		require.LessOrEqual(t, w.posts, w.settings.receives(), "receives posted")
		require.Len(t, p.calls.free, w.settings.calls, "promises that came back")
		require.Zero(t, s.refused, "replies that found no room")
		require.Less(t, p.cursor.start-p.freed, w.settings.ring/8+w.settings.allowance, "room that did not come back")
		require.LessOrEqual(t, p.sent-p.returned, uint32(w.settings.batches)/2, "receives that did not come back")
		require.LessOrEqual(t, w.counts.doorbells, w.counts.batches+w.counts.credits, "doorbells: one for each flush and peer, and one for each credit")
	}
}

// volume is one side of a flood.
type volume struct {
	*echoer
	ops                       []transport.Op
	flying, answered, refused int
}

func newVolume(w *worker) *volume {
	v := &volume{echoer: newEchoer(w), ops: make([]transport.Op, 64)}
	for i := range v.ops {
		v.ops[i] = transport.Op{Kind: transport.OpCall, Payload: make([]byte, i)}
	}
	return v
}

func (v *volume) turn(inFlight int) error {
	n, err := v.w.Post(v.ops[:max(inFlight-v.flying, 0)])
	if err != nil {
		return err
	}
	v.flying += n
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
			v.flying--
			v.answered++
			continue
		}
		replies = append(replies, transport.Op{Kind: transport.OpReply, Peer: e.Peer, Token: e.Token, Payload: e.Payload})
	}
	n, err = v.w.Post(replies)
	v.refused += len(replies) - n
	if err != nil {
		return err
	}
	return v.w.Flush()
}
