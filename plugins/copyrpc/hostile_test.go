package copyrpc

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// connected returns two workers of this process that are each other's peer 0, with the
// connection up.
func connected(t testing.TB, cfg transport.Config, raw map[string]string) (a, b *worker) {
	options, err := transport.ParseOptions(schema, raw)
	require.NoError(t, err)
	cfg.Workers, cfg.Peers, cfg.Options = 1, 1, options
	workers := make([]*worker, 2)
	for i := range workers {
		tr, err := Driver{}.Open(context.Background(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		w, err := tr.NewWorker(0)
		require.NoError(t, err)
		workers[i] = w.(*worker)
	}
	a, b = workers[0], workers[1]
	require.NoError(t, a.Connect(context.Background(), 0, b.Address()))
	require.NoError(t, b.Connect(context.Background(), 0, a.Address()))
	var none [1]transport.Event
	for deadline := time.Now().Add(30 * time.Second); a.peers.ByID[0].state != up ||
		b.peers.ByID[0].state != up; {
		require.True(t, time.Now().Before(deadline), "the connection does not come up")
		for _, w := range workers {
			n, err := w.Poll(none[:])
			require.NoError(t, err)
			require.Zero(t, n)
		}
	}
	return a, b
}

var small = transport.Config{InFlight: 4, MaxPayload: 256}

// writeRaw writes any bytes into the peer's ring, regardless of the protocol.
func (w *worker) writeRaw(t testing.TB, content []byte, immediate uint32) {
	p := w.peers.ByID[0]
	copy(p.sendRing, content)
	_, err := p.qp.PostSend([]rdma.SendRequest{{Opcode: rdma.WriteWithImmediate, Local: p.localRing,
		LocalKey: w.region.LocalKey,
		Length:   uint32(len(content)), Remote: p.remoteRing, RemoteKey: p.remoteKey,
		Immediate: immediate}})
	require.NoError(t, err)
}

func batchOf(returned, receives, count uint32, messages ...byte) []byte {
	b := make([]byte, headerSize)
	putHeader(b, returned, receives, count)
	return append(b, messages...)
}

func message(id, length uint32) []byte {
	return []byte{byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24), byte(length),
		byte(length >> 8), byte(length >> 16), byte(length >> 24)}
}

// lone is a lone message without payload, behind what its batch does not write.
func lone(id, length, returned, receives uint32) []byte {
	b := make([]byte, headerSize)
	return binary.LittleEndian.AppendUint64(b, packLone(uint64(id)|uint64(length)<<32, returned,
		receives))
}

func TestPeersThatBreakTheProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		content   []byte
		immediate uint32
	}{
		"more than the ring":    {nil, 1 << 20},
		"no messages":           {batchOf(0, 0, 0), 1},
		"more than was sent":    {batchOf(0, 0, 1, message(0, 24)...), 1},
		"a message of 4 GiB":    {batchOf(0, 0, 1, message(0, 1<<32-1)...), 1},
		"a call out of range":   {batchOf(0, 0, 1, message(1000, 0)...), 1},
		"a response to no call": {batchOf(0, 0, 1, message(responseBit|1, 0)...), 1},
		"more messages than were sent": {batchOf(0, 0, 3,
			append(message(0, 0), message(1, 8)...)...), 1},
		"a call twice": {batchOf(0, 0, 2,
			append(message(3, 0), message(3, 0)...)...), 1},
		"credit that was never used": {batchOf(99, 0, 1, message(0, 0)...), 1},
		"receives never consumed":    {batchOf(0, 99, 1, message(0, 0)...), 1},
		"padding beyond the write":   {batchOf(0, 0, paddingCount), 1},
		"lone: no room":              {lone(0, 0, 0, 0), loneMessage},
		"lone: more than was sent":   {lone(0, 17, 0, 0), loneMessage + 1},
		"lone: a call out of range":  {lone(1000, 0, 0, 0), loneMessage + 1},
		"lone: a response to no call": {lone(responseBit|1, 0, 0, 0),
			loneMessage + 1},
		"lone: credit never used":       {lone(0, 0, 99, 0), loneMessage + 1},
		"lone: receives never consumed": {lone(0, 0, 0, 99), loneMessage + 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connected(t, small, soft())
			a.writeRaw(t, c.content, c.immediate)
			var events [8]transport.Event
			n, err := b.Poll(events[:])
			require.ErrorIs(t, err, transport.ErrCorrupt)
			var op *transport.OpError
			require.ErrorAs(t, err, &op)
			require.EqualValues(t, 0, op.Peer)
			lost := false
			for range 2 {
				for _, e := range events[:n] {
					lost = lost || e.Kind == transport.EventPeerLost
				}
				n, err = b.Poll(events[:])
				require.NoError(t, err)
			}
			require.True(t, lost, "the peer is not reported lost")
			_, err = b.Post([]transport.Op{{Kind: transport.OpCall}})
			require.ErrorIs(t, err, transport.ErrPeerDown)
		})
	}
}

// TestBatchWithTooFewMessages checks that a batch with fewer messages than its header counts breaks
// the protocol, though the events of a Poll have no room for more.
func TestBatchWithTooFewMessages(t *testing.T) {
	a, b := connected(t, small, soft())
	a.writeRaw(t, batchOf(0, 0, 2, message(0, 0)...), 1)
	var events [1]transport.Event
	n, err := b.Poll(events[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = b.Poll(events[:])
	require.ErrorIs(t, err, transport.ErrCorrupt)
}

// TestForgedCreditWord checks that the word that a peer writes one-sided is validated when
// it is read.
func TestForgedCreditWord(t *testing.T) {
	a, _ := connected(t, small, soft())
	a.peers.ByID[0].credit.store(packCredit(1<<20, 7))
	call := []transport.Op{{Kind: transport.OpCall, Payload: make([]byte, 256)}}
	var events [4]transport.Event
	a.settings.batches = 0 // no receives, so that the word is read
	_, err := a.Post(call)
	require.NoError(t, err)
	require.NoError(t, a.Flush())
	_, err = a.Poll(events[:])
	require.ErrorIs(t, err, transport.ErrCorrupt)
}

// TestOldCreditWord lets a connection move so much that the word of credit, written long ago, looks
// like new credit: forged, or valid by chance.
func TestOldCreditWord(t *testing.T) {
	for _, units := range []uint64{1<<31 + 1, 1<<32 - 1} {
		a, _ := connected(t, small, soft())
		p := a.peers.ByID[0]
		p.peerReleased += units * unit
		p.written = p.peerReleased + 2*unit
		p.cursor.start, p.cursor.next = p.written, p.written
		released := p.peerReleased
		a.seekCredit(p)
		require.Equal(t, up, p.state)
		require.Equal(t, released, p.peerReleased)
	}
}

// TestCreditIsTakenInTime checks that Poll takes credit that came by itself, though none is short.
func TestCreditIsTakenInTime(t *testing.T) {
	a, _ := connected(t, small, soft())
	p := a.peers.ByID[0]
	p.written += 2 * unit
	p.credit.store(packCredit(unit, 0))
	for range lookInterval {
		_, err := a.Poll(nil)
		require.NoError(t, err)
	}
	require.EqualValues(t, unit, p.peerReleased)
}

func TestForgedAddresses(t *testing.T) {
	a, b := connected(t, small, soft())
	options, err := transport.ParseOptions(schema, soft())
	require.NoError(t, err)
	cfg := small
	cfg.Workers, cfg.Peers, cfg.Options = 1, 4, options
	tr, err := Driver{}.Open(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	w, err := tr.NewWorker(0)
	require.NoError(t, err)
	var good workerAddress
	require.NoError(t, json.Unmarshal(a.Address(), &good))
	for name, c := range map[string]struct {
		forge func(*workerAddress)
		want  string
	}{
		"ring not a power of two": {func(a *workerAddress) { a.Ring = 100_000 },
			"ring of 100000 bytes"},
		"no ring":               {func(a *workerAddress) { a.Ring = 0 }, "ring of 0 bytes"},
		"ring too large":        {func(a *workerAddress) { a.Ring = 1 << 62 }, "ring of"},
		"message over the ring": {func(a *workerAddress) { a.Allowance = a.Ring }, "calls of"},
		"calls over the ring":   {func(a *workerAddress) { a.Calls = 1 << 30 }, "calls of"},
		"no calls":              {func(a *workerAddress) { a.Calls = 0 }, "0 calls"},
		"other options":         {func(a *workerAddress) { a.Ring *= 2 }, "same options"},
		"other credit": {func(a *workerAddress) { a.Credit = creditRead },
			"same options"},
		"other queue pairs": {func(a *workerAddress) { a.Pairs = pairsDC }, "queue pairs \"dc\""},
		"another provider": {func(a *workerAddress) { a.Endpoint.Provider = rdma.Verbs },
			"provider"},
		"another version": {func(a *workerAddress) { a.Version = 9 }, "version 9"},
		"unknown queue pair": {func(a *workerAddress) { a.Endpoint.Soft.Nonce++ },
			"queue pair"},
	} {
		forged := good
		copied := *good.Endpoint.Soft
		forged.Endpoint.Soft = &copied
		c.forge(&forged)
		encoded, err := json.Marshal(forged)
		require.NoError(t, err)
		require.ErrorContains(t, w.Connect(context.Background(), 1, encoded), c.want, name)
	}
	require.Error(t, w.Connect(context.Background(), 1, []byte("no address")))
	require.ErrorContains(t, b.Connect(context.Background(), 5, w.Address()), "opened for 1 peers")
}

// FuzzHostileRing lets a peer write any bytes to a ring and announce any length.
func FuzzHostileRing(f *testing.F) {
	f.Add(batchOf(0, 0, 1, message(0, 0)...), uint32(1), uint8(0))
	f.Add(batchOf(0, 0, paddingCount), uint32(2048), uint8(3))
	f.Add(lone(0, 5, 0, 0), loneMessage+1, uint8(1))
	f.Add(batchOf(1, 1, 2, append(message(0, 8), message(1, 0)...)...), uint32(2), uint8(1))
	f.Fuzz(func(t *testing.T, content []byte, immediate uint32, calls uint8) {
		a, b := connected(t, small, soft())
		call := []transport.Op{{Kind: transport.OpCall, Payload: make([]byte, 100)}}
		for range calls % 4 {
			_, _ = b.Post(call)
		}
		_ = b.Flush()
		var events [16]transport.Event
		for range 3 {
			a.writeRaw(t, content[:min(len(content), len(a.peers.ByID[0].sendRing))], immediate)
			n, _ := b.Poll(events[:])
			for _, e := range events[:n] {
				for _, octet := range e.Payload { // every byte must be readable
					_ = octet
				}
				if e.Kind == transport.EventRequest {
					_, _ = b.Post([]transport.Op{{Kind: transport.OpReply, Peer: e.Peer,
						Token: e.Token, Payload: e.Payload}})
				}
			}
			_ = b.Flush()
		}
	})
}

// TestGuessedDatagrams: a datagram ends or changes a connection only with all bits of both workers'
// nonces, and a recorded one that opened the connection changes nothing.
func TestGuessedDatagrams(t *testing.T) {
	a, b := connected(t, small, soft())
	datagram := func(kind uint32, from, to uint64) []byte {
		d := binary.LittleEndian.AppendUint64(nil, datagramMagic|uint64(kind)<<32)
		d = binary.LittleEndian.AppendUint64(d, from)
		d = binary.LittleEndian.AppendUint64(d, to)
		return append(d, make([]byte, datagramHeader-len(d))...)
	}
	p := b.peers.ByID[0]
	remote := [2]uint64{p.remoteRing, p.remoteControl}
	for bit := range 64 {
		b.manager.handle(datagram(kindBye, a.nonce^1<<bit, b.nonce))
		b.manager.handle(datagram(kindBye, a.nonce, b.nonce^1<<bit))
	}
	b.manager.handle(datagram(kindBye, 0, b.nonce))
	b.manager.handle(datagram(kindBye, a.nonce, 0))
	for _, kind := range []uint32{kindHello, kindReady} {
		b.manager.handle(datagram(kind, a.nonce, b.nonce))
	}
	require.Equal(t, up, p.state)
	require.Equal(t, remote, [2]uint64{p.remoteRing, p.remoteControl})
	b.manager.handle(datagram(kindBye, a.nonce, b.nonce))
	require.NotEqual(t, up, p.state)
}

// FuzzDatagram delivers any datagram with a valid header.
func FuzzDatagram(f *testing.F) {
	f.Add([]byte("not one of ours"), uint8(kindHello))
	f.Fuzz(func(t *testing.T, tail []byte, kind uint8) {
		a, b := connected(t, small, soft())
		header := binary.LittleEndian.AppendUint64(nil, datagramMagic|uint64(kind)<<32)
		header = binary.LittleEndian.AppendUint64(header, a.nonce)
		header = binary.LittleEndian.AppendUint64(header, b.nonce)
		b.manager.handle(append(header, tail...))
		var events [4]transport.Event
		_, err := b.Poll(events[:])
		require.NoError(t, err)
	})
}
