package ofi

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
	"transportbench/plugins/ofi/internal/fi"
)

// hostile connects a worker to a worker of package fi, which can send what this transport
// never sends.
func hostile(t testing.TB) (w *worker, h *fi.Worker) { return hostileAs(t, func(*address) {}) }

// hostileAs is hostile with another address than the hostile worker's for the other one.
func hostileAs(t testing.TB, change func(*address)) (w *worker, h *fi.Worker) {
	needLibrary(t)
	same := map[string]string{optionProvider: "shm"}
	tr, w, err := open(role{Options: same, MaxPayload: 4096})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	other, its, err := open(role{Options: same, MaxPayload: 4096, InFlight: 64})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	a, err := decodeAddress(its.Address())
	require.NoError(t, err)
	a.window = uint32(w.window)
	change(a)
	require.NoError(t, w.Connect(t.Context(), 0, a.encode()))
	require.NoError(t, its.library.Connect(0, w.nonce, w.library.Address()))
	return w, its.library
}

// cutOff expects count events of h, then ErrCorrupt, the loss and nothing else.
func cutOff(t *testing.T, w *worker, h *fi.Worker, count int) {
	h.Flush()
	events := make([]transport.Event, 16)
	for polls := 0; ; polls++ {
		require.Less(t, polls, 1_000_000, "the peer was not cut off")
		h.Progress()
		n, err := w.Poll(events)
		count -= n
		if err != nil {
			require.ErrorIs(t, err, transport.ErrCorrupt)
			break
		}
	}
	require.Zero(t, count, "messages before the wrong one")
	require.Equal(t, transport.EventPeerLost, next(t, w).Kind)
	n, err := w.Poll(events)
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = w.Post([]transport.Op{{Kind: transport.OpCall}})
	require.ErrorIs(t, err, transport.ErrPeerDown)
}

// TestGuessedNonce: messages of a sender whose nonce differs from the peer's by a bit are none of
// the peer's, and the peer stays connected.
func TestGuessedNonce(t *testing.T) {
	for _, bit := range []int{3, 7, 8, 31, 32, 63} {
		w, h := hostileAs(t, func(a *address) {
			a.nonce ^= 1 << bit
			p, err := newPresence(netip.Addr{}, a.nonce, 1, time.Minute)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.close()) })
			a.presence = p.address
		})
		for kind := range fi.Lost {
			require.True(t, h.Enqueue(0, kind, 1, []byte("guessed")))
		}
		h.Flush()
		for range 100 {
			h.Progress()
			n, err := w.Poll(make([]transport.Event, 16))
			require.NoError(t, err, "bit %d", bit)
			require.Zero(t, n, "bit %d", bit)
		}
		require.Equal(t, peerUp, w.peers.Get(0).state)
	}
}

// TestPresenceHidesNonce: all processes of a host can read the name of a presence.
func TestPresenceHidesNonce(t *testing.T) {
	needLibrary(t)
	tr, w, err := open(role{Options: map[string]string{optionProvider: "shm"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, tr.Close()) }()
	require.NotContains(t, w.presence.address, strconv.FormatUint(w.nonce, 16))
	require.Len(t, w.presence.address, len("@transportbench-ofi-")+26)
}

func TestHostilePeerIsCutOff(t *testing.T) {
	t.Run("reply to no call", func(t *testing.T) {
		w, h := hostile(t)
		require.True(t, h.Enqueue(0, fi.Reply, 1, nil))
		cutOff(t, w, h, 0)
	})
	t.Run("more calls than the window", func(t *testing.T) {
		w, h := hostile(t)
		for i := range w.window + 1 {
			require.True(t, h.Enqueue(0, fi.Call, uint64(i), []byte("call")))
		}
		cutOff(t, w, h, w.window)
	})
	t.Run("unknown kind", func(t *testing.T) {
		w, h := hostile(t)
		require.True(t, h.Enqueue(0, fi.Lost, 1, nil))
		cutOff(t, w, h, 0)
	})
	t.Run("no kind", func(t *testing.T) {
		w, h := hostile(t)
		require.True(t, h.Enqueue(0, 0, 1, nil))
		cutOff(t, w, h, 0)
	})
	t.Run("a flood that is never polled", func(t *testing.T) {
		w, h := hostile(t)
		for range 1000 {
			for h.Enqueue(0, fi.Call, 1, []byte("flood")) {
			}
			h.Flush()
			h.Progress()
			w.library.Progress() // without taking anything
		}
		cutOff(t, w, h, w.window)
	})
}

// TestStrangersAreDropped: messages of a probe are ignored when no probe runs.
func TestStrangersAreDropped(t *testing.T) {
	w, h := hostile(t)
	for kind := fi.Kind(4); kind <= 6; kind++ {
		require.True(t, h.Enqueue(0, kind, 1<<40, nil))
	}
	require.True(t, h.Enqueue(0, fi.Call, 9, []byte("honest")))
	h.Flush()
	events := make([]transport.Event, 1)
	for polls := 0; ; polls++ {
		require.Less(t, polls, 1_000_000, "nothing arrived")
		h.Progress()
		n, err := w.Poll(events)
		require.NoError(t, err)
		if n == 1 {
			break
		}
	}
	require.Equal(t, transport.EventRequest, events[0].Kind)
	require.Equal(t, "honest", string(events[0].Payload))
}

func TestAddressesThatLie(t *testing.T) {
	needLibrary(t)
	var workers [2]*worker
	for i := range workers {
		tr, w, err := open(role{Options: map[string]string{optionProvider: "shm"}, MaxPayload: 64})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		workers[i] = w
	}
	w, other := workers[0], workers[1]
	changed := func(change func(a *address)) []byte {
		a, err := decodeAddress(other.Address())
		require.NoError(t, err)
		change(a)
		return a.encode()
	}
	for name, bytes := range map[string][]byte{
		"nothing":             nil,
		"not an address":      []byte("127.0.0.1:80"),
		"cut short":           other.Address()[:len(other.Address())-1],
		"another window":      changed(func(a *address) { a.window++ }),
		"another eager limit": changed(func(a *address) { a.small++ }),
		"another payload":     changed(func(a *address) { a.most++ }),
		"another provider":    changed(func(a *address) { a.provider = "tcp;ofi_rxm" }),
		"no nonce":            changed(func(a *address) { a.nonce = 0 }),
		"no presence":         changed(func(a *address) { a.presence = "@transportbench-nobody" }),
		"no port":             changed(func(a *address) { a.presence = "nowhere" }),
		"no library":          changed(func(a *address) { a.library = nil }),
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, w.Connect(t.Context(), 0, bytes)) })
	}
	require.NoError(t, w.Connect(t.Context(), 0, other.Address()))
	require.Error(t, w.Connect(t.Context(), 0, other.Address()), "twice")
	require.Error(t, w.Connect(t.Context(), 1, other.Address()),
		"a PeerID beyond the configuration")
}

// TestNamesStayInSharedMemory: a peer cannot make libfabric open a file elsewhere.
func TestNamesStayInSharedMemory(t *testing.T) {
	w := alone(t)
	path := filepath.Join(t.TempDir(), "bait")
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	before, err := os.Stat(path)
	require.NoError(t, err)
	outside, err := filepath.Rel(shm.NamedDir, path)
	require.NoError(t, err)
	_ = w.library.Connect(0, 1<<8, []byte("fi_shm://"+outside))
	require.True(t, w.library.Enqueue(0, fi.Call, 1, []byte("into the bait")))
	w.library.Flush()
	w.library.Progress()
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 1<<20), after)
	require.Equal(t, before.Size(), int64(len(after)))
}

// alone returns a worker without peers.
func alone(t *testing.T) *worker {
	needLibrary(t)
	tr, w, err := open(role{Options: map[string]string{optionProvider: "shm"}, MaxPayload: 64})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return w
}

// FuzzDecodeAddress: decodeAddress accepts only what encode writes, and detects damage.
func FuzzDecodeAddress(f *testing.F) {
	f.Add((&address{nonce: rand.Uint64(), window: 16, provider: "shm", library: []byte("address")}).
		encode(), uint16(0), byte(0))
	f.Add([]byte(addressMagic), uint16(3), byte(1))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, change byte) {
		a, err := decodeAddress(b)
		if err != nil {
			return
		}
		require.Equal(t, b, a.encode())
		if change != 0 {
			b[int(at)%len(b)] ^= change
			_, err = decodeAddress(b)
			require.Error(t, err)
		}
	})
}
