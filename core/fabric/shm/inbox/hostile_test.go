package inbox

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

func TestHostilePeerIsCutOff(t *testing.T) {
	for _, name := range Rings() {
		t.Run(name, func(t *testing.T) { cutOff(t, withRing(name)) })
		t.Run(name+"/wide", func(t *testing.T) {
			cutOff(t, func(c *Config) { c.Ring, c.MaxPayload = name, ring.WideInlineSize })
		})
	}
}

// cutOff breaks the ring of a peer after a message, and checks that it is cut off.
func cutOff(t *testing.T, change func(*Config)) {
	a, b := connected(t, change)
	_, err := a.Post([]transport.Op{{Kind: transport.OpCall, Payload: []byte("fine")}})
	require.NoError(t, err)
	require.NoError(t, a.Flush())
	// No correct peer writes such a generation, flag, length, offset or kind.
	memory := b.inbox.memory(0)
	for i := range memory {
		memory[i] = 0xff
	}
	events := make([]transport.Event, 8)
	_, err = b.Poll(events)
	require.ErrorIs(t, err, transport.ErrCorrupt)
	var op *transport.OpError
	require.ErrorAs(t, err, &op)
	require.EqualValues(t, 0, op.Peer)
	n, err := b.Poll(events)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, transport.EventPeerLost, events[0].Kind)
	_, err = b.Post([]transport.Op{{Kind: transport.OpReply}})
	require.ErrorIs(t, err, transport.ErrPeerDown)
}

func TestNotificationOfRegionsThatDoNotExist(t *testing.T) {
	_, b := connected(t, nil)
	b.inbox.notifier.bitmap[0].Store(^uint64(0))
	b.inbox.notifier.wake()
	n, err := b.Poll(make([]transport.Event, 4))
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestAddressesThatLie(t *testing.T) {
	a, _ := connected(t, nil)
	cfg := testConfig()
	cfg.Peers = 8
	tr, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	w, err := tr.NewWorker(0)
	require.NoError(t, err)

	var good address
	require.NoError(t, json.Unmarshal(a.Address(), &good))
	unsealed, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(unsealed) })
	require.NoError(t, unix.Ftruncate(unsealed, int64(good.Ref.Size)))
	for name, lie := range map[string]func(*address){
		"another host":      func(a *address) { a.Boot = "x" },
		"another nonce":     func(a *address) { a.Nonce++ },
		"another size":      func(a *address) { a.Ref.Size *= 2 },
		"negative size":     func(a *address) { a.Ref.Size = -1 },
		"closed descriptor": func(a *address) { a.Ref.FD = 1 << 20 },
		"not a segment":     func(a *address) { a.Ref.FD = int(os.Stderr.Fd()) },
		"not sealed":        func(a *address) { a.Ref.FD = unsealed },
		"path as a name": func(a *address) {
			a.Ref = shm.Ref{Name: "../etc/passwd",
				Size: a.Ref.Size}
		},
		"dead process": func(a *address) { a.PID = 1 << 22 },
	} {
		t.Run(name, func(t *testing.T) {
			lying := good
			lie(&lying)
			encoded, err := json.Marshal(lying)
			require.NoError(t, err)
			require.Error(t, w.Connect(context.Background(), 1, encoded))
		})
	}
	require.Error(t, w.Connect(context.Background(), 1, []byte("not an address")))
}

// FuzzHostileInbox lets a peer scribble over the whole inbox between polls.
func FuzzHostileInbox(f *testing.F) {
	f.Add(uint8(0), uint16(0), []byte("scribble"))
	f.Add(uint8(1), uint16(ringOffset), []byte{255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, which uint8, at uint16, bytes []byte) {
		a, b := connected(t, func(c *Config) {
			c.Ring, c.Slots, c.Arena = Rings()[int(which)%5], 8, 64<<10
		})
		call := []transport.Op{{Kind: transport.OpCall, Payload: []byte("payload")}}
		events := make([]transport.Event, 4)
		for range 4 {
			_, _ = a.Post(call)
			_ = a.Flush()
			memory := b.inbox.segment.Bytes()
			copy(memory[min(bitmapOffset+int(at), len(memory)-1):], bytes)
			b.inbox.notifier.wake()
			n, _ := b.Poll(events)
			for _, e := range events[:n] {
				for _, octet := range e.Payload { // every byte is readable
					_ = octet
				}
				_, _ = b.Post([]transport.Op{{Kind: transport.OpReply, Peer: e.Peer, Token: e.Token,
					Payload: e.Payload}})
			}
			_ = b.Flush()
			_, _ = a.Poll(events)
		}
	})
}
