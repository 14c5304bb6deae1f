package copyrpc

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// TestLoneHeader packs any message and credit, and unpacks them.
func TestLoneHeader(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		id := rapid.Uint32Range(0, maxLoneCalls-1).Draw(rt, "id")
		if rapid.Bool().Draw(rt, "response") {
			id |= responseBit
		}
		length := rapid.Uint64Range(0, maxLone).Draw(rt, "length")
		units, receives := rapid.Uint32().Draw(rt, "units"), rapid.Uint32().Draw(rt, "receives")
		knownUnits := units - rapid.Uint32Range(0, maxLoneReturned).Draw(rt, "more units")
		knownReceives := receives - rapid.Uint32Range(0, maxLoneReceives).Draw(rt, "more receives")
		word := packLone(uint64(id)|length<<32, units, receives)
		gotID, gotLength := unpackLone(word)
		require.Equal(rt, id, gotID)
		require.Equal(rt, length, gotLength)
		gotUnits, gotReceives := loneCredit(word, knownUnits, knownReceives)
		require.Equal(rt, units, gotUnits)
		require.Equal(rt, receives, gotReceives)
	})
}

// TestLoneMessagesWait lets lone messages arrive that do not fit into the events of a Poll, between
// batches of two.
func TestLoneMessagesWait(t *testing.T) {
	a, b := connected(t, transport.Config{InFlight: 16, MaxPayload: 64}, soft())
	var want, got []string
	post := func(n int) {
		var ops []transport.Op
		for range n {
			text := fmt.Sprint("message ", len(want))
			want = append(want, text)
			ops = append(ops, transport.Op{Kind: transport.OpCall, Payload: []byte(text)})
		}
		taken, err := a.Post(ops)
		require.NoError(t, err)
		require.Equal(t, n, taken)
		require.NoError(t, a.Flush())
	}
	for _, n := range []int{1, 1, 2, 1, 2, 2, 1, 1} {
		post(n)
	}
	var events [1]transport.Event
	for range want {
		n, err := b.Poll(events[:])
		require.NoError(t, err)
		require.Equal(t, 1, n)
		got = append(got, string(events[0].Payload))
	}
	require.Equal(t, want, got)
}

// recorder records the lengths of inline writes.
type recorder struct {
	rdma.InlineWriter
	lengths []uint32
}

func (r *recorder) WriteInline(id, local uint64, length uint32, remote uint64,
	remoteKey, immediate uint32) bool {
	r.lengths = append(r.lengths, length)
	return r.InlineWriter.WriteInline(id, local, length, remote, remoteKey, immediate)
}

// TestLoneMessageFitsLine checks that a lone message of 48 bytes leaves 8 bytes of a cache line to
// the device.
func TestLoneMessageFitsLine(t *testing.T) {
	a, _ := connected(t, small, soft())
	p := a.peers.ByID[0]
	r := &recorder{InlineWriter: p.writer}
	p.writer = r
	n, err := a.Post([]transport.Op{{Kind: transport.OpCall, Payload: make([]byte, 48)}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, a.Flush())
	require.Equal(t, []uint32{56}, r.lengths)
}

// TestBatchIsFull checks that Post takes no more messages than the header of a batch can count.
func TestBatchIsFull(t *testing.T) {
	a, _ := connected(t, small, soft())
	calls := make([]transport.Op, 2)
	for i := range calls {
		calls[i].Kind = transport.OpCall
	}
	a.peers.ByID[0].openCount = maxMessages - 1
	n, err := a.Post(calls)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// TestLongMessagesInPlace posts long messages between short ones, for several laps of the ring. A
// long payload is copied once: to the peer.
func TestLongMessagesInPlace(t *testing.T) {
	a, b := connected(t, transport.Config{InFlight: 4, MaxPayload: 3000}, soft())
	var events [4]transport.Event
	answer := func(w *worker, want []transport.Op) {
		got := 0
		for got < len(want) {
			n, err := w.Poll(events[got:])
			require.NoError(t, err)
			got += n
		}
		for i, op := range want {
			require.Equal(t, op.Payload, events[i].Payload)
			want[i].Kind, want[i].Token = transport.OpReply, events[i].Token
		}
	}
	for round := range 100 {
		ops := make([]transport.Op, 4)
		long := 0
		for i := range ops {
			size := 10 + round
			if (round>>i)&1 == 1 {
				size = inPlaceFrom + 19*round
				long += size
			}
			ops[i] = transport.Op{Kind: transport.OpCall,
				Payload: bytes.Repeat([]byte{byte(round + i)}, size)}
		}
		before := a.work().CopiedBytes
		post(t, a, ops)
		require.Less(t, a.work().CopiedBytes-before, uint64(long+2*4*(10+round)+5*unit))
		answer(b, ops)
		post(t, b, ops)
		answer(a, ops)
	}
	require.NotZero(t, a.counts.padding)
}

// post posts and flushes all ops.
func post(t *testing.T, w *worker, ops []transport.Op) {
	n, err := w.Post(ops)
	require.NoError(t, err)
	require.Equal(t, len(ops), n)
	require.NoError(t, w.Flush())
}
