package rdma

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/shm"
)

// hostilePair returns two connected queue pairs of two devices, and a region of the second
// device.
func hostilePair(t testing.TB, kind QueuePairType) (a, b *softQueuePair, remote RemoteRegion) {
	var pairs [2]*softQueuePair
	for i := range pairs {
		d, err := openSoft("")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		cq, err := d.NewCompletionQueue(64)
		require.NoError(t, err)
		qp, err := d.NewQueuePair(QueuePairConfig{Type: kind, Completions: cq, SendDepth: 8,
			ReceiveDepth: 8, MaxInline: 64, Peers: 2})
		require.NoError(t, err)
		region, err := d.Allocate(4096, RemoteWrite)
		require.NoError(t, err)
		receive := ReceiveRequest{Local: region.Address, Length: 512, LocalKey: region.LocalKey}
		for range 8 {
			_, err = qp.PostReceive([]ReceiveRequest{receive})
			require.NoError(t, err)
		}
		pairs[i], remote = qp.(*softQueuePair), region.Remote
	}
	if kind == ReliableConnected {
		require.NoError(t, pairs[0].Connect(pairs[1].Endpoint(), ConnectOptions{}))
		require.NoError(t, pairs[1].Connect(pairs[0].Endpoint(), ConnectOptions{}))
	} else {
		_, err := pairs[0].AddPeer(pairs[1].Endpoint())
		require.NoError(t, err)
	}
	return pairs[0], pairs[1], remote
}

// FuzzHostileWire lets a sender write anything to its peer's wire and its own directory.
// The peer must not fault, and nothing may be written outside of its registered memory.
func FuzzHostileWire(f *testing.F) {
	slot := make([]byte, 64)
	binary.LittleEndian.PutUint64(slot, packSlot(1, WriteWithImmediate, slotRetries, slotLong))
	binary.LittleEndian.PutUint32(slot[slotLength:], 1<<31)
	f.Add(false, uint16(wireSlots), slot)
	f.Add(false, uint16(wireHead), []byte{255, 255, 255, 255, 255, 255, 255, 255})
	f.Add(true, uint16(wireClaim), []byte{255, 255, 255})
	f.Add(true, uint16(wireHeaderSize), []byte{1, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, datagrams bool, at uint16, scribble []byte) {
		kind, opcode := ReliableConnected, WriteWithImmediate
		if datagrams {
			kind, opcode = UnreliableDatagram, Send
		}
		a, b, remote := hostilePair(t, kind)
		request := []SendRequest{{Opcode: opcode, Flags: Signaled | Inline, Remote: remote.Address,
			RemoteKey: remote.Key}}
		completions := make([]Completion, 4)
		for range 4 {
			_, _ = a.PostSend(request)
			wire := b.segment.Bytes()
			copy(wire[min(int(at), len(wire)-1):], scribble)
			copy(a.device.directory.Bytes()[directoryEntries:], scribble)
			n, err := b.cq.Poll(completions)
			require.NoError(t, err)
			require.LessOrEqual(t, n, len(completions))
			_, _ = b.PostSend(request)
			_, _ = a.cq.Poll(completions)
		}
	})
}

func TestForgedEndpoints(t *testing.T) {
	a, b, _ := hostilePair(t, ReliableConnected)
	qp, err := a.device.NewQueuePair(QueuePairConfig{Type: ReliableConnected, Completions: a.cq,
		SendDepth: 8, ReceiveDepth: 8})
	require.NoError(t, err)
	for name, forge := range map[string]func(*SoftEndpoint){
		"another host":        func(e *SoftEndpoint) { e.Boot = "x" },
		"another device":      func(e *SoftEndpoint) { e.Device++ },
		"another wire":        func(e *SoftEndpoint) { e.Nonce++ },
		"not a wire":          func(e *SoftEndpoint) { e.Wire = e.Directory },
		"not a directory":     func(e *SoftEndpoint) { e.Device++; e.Directory = e.Wire },
		"a terminal":          func(e *SoftEndpoint) { e.Wire.FD = int(os.Stderr.Fd()) },
		"a dead process":      func(e *SoftEndpoint) { e.Device++; e.Directory.PID = 1 << 22 },
		"size":                func(e *SoftEndpoint) { e.Wire.Size = -1 },
		"connected elsewhere": func(*SoftEndpoint) {},
		"a path": func(e *SoftEndpoint) {
			e.Wire = shm.Ref{Name: "../etc/passwd",
				Size: 1}
		},
	} {
		e := b.Endpoint()
		forged := *e.Soft
		e.Soft = &forged
		forge(e.Soft)
		require.ErrorIs(t, qp.Connect(e, ConnectOptions{}), ErrPeer, name)
	}
	b2, err := b.device.NewQueuePair(QueuePairConfig{Type: ReliableConnected, Completions: b.cq,
		SendDepth: 16, ReceiveDepth: 8})
	require.NoError(t, err)
	require.ErrorContains(t, qp.Connect(b2.Endpoint(), ConnectOptions{}),
		"the soft device needs the same depth")
	b3, err := b.device.NewQueuePair(QueuePairConfig{Type: ReliableConnected, Completions: b.cq,
		SendDepth: 8, ReceiveDepth: 8})
	require.NoError(t, err)
	require.NoError(t, qp.Connect(b3.Endpoint(), ConnectOptions{}))
}
