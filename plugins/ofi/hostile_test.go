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

	"transportbench/core/fabric/amlib"
	"transportbench/core/fabric/amlib/amlibtest"
	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
	"transportbench/plugins/ofi/internal/fi"
)

// hostile connects a worker to a worker of package fi alone. change may change the address of the
// latter that the former gets.
func hostile(t *testing.T, change func(*address)) amlibtest.Pair {
	p, _ := hostileWith(t, map[string]string{optionProvider: "shm"}, change)
	return p
}

// hostileWith is hostile with options, and also returns the peer.
func hostileWith(t *testing.T, same map[string]string, change func(*address)) (amlibtest.Pair,
	*fi.Worker) {
	needLibrary(t)
	tr, w, err := open(fabrictest.Rank{Options: same})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	other, its, err := open(fabrictest.Rank{Options: same, InFlight: 64})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	a, err := decodeAddress(its.Address())
	require.NoError(t, err)
	window := w.endpoint.settings.worker.Window
	a.window = uint32(window)
	change(a)
	require.NoError(t, w.Connect(t.Context(), 0, a.encode()))
	require.NoError(t, its.library.Connect(0, w.nonce, w.library.Address()))
	return amlibtest.Pair{Worker: w, Own: &w.library.Queue, Window: window,
		Peer: &its.library.Queue}, its.library
}

// TestForgedLists: a peer is cut off whose message claims to gather more than it can, or less than
// one, and what it gathers must be whole messages of the peer.
func TestForgedLists(t *testing.T) {
	// forge sends an honest message and then one that claims to gather count.
	forge := func(count, size int) amlibtest.Pair {
		p, its := hostileWith(t, map[string]string{optionProvider: "shm", optionEager: "64"},
			func(*address) {})
		require.True(t, its.Enqueue(0, amlib.Call, 1, nil))
		its.Flush() // also makes the connection
		for p.Own.Ready() == 0 {
			its.Progress()
			p.Own.Progress()
		}
		require.True(t, its.Enqueue(0, amlib.Call, 2, make([]byte, size)))
		require.NoError(t, its.Forge(count))
		return p
	}
	for count, size := range map[int]int{0: 104, 2: 100, 4: 100, 5: 104, 255: 104} {
		forge(count, size).RequireCutOff(t, 1)
	}
	p := forge(3, 104)
	for _, size := range []int{0, 24} {
		require.Equal(t, size, fabrictest.Next(t, p.Worker).Size)
	}
	for range 100 {
		n, err := p.Worker.Poll(make([]transport.Event, 1))
		require.NoError(t, err)
		require.Zero(t, n, "what has no header of the peer is dropped")
	}
}

// TestGuessedNonce: messages of a sender whose nonce differs from the peer's by a bit are none of
// the peer's, and the peer stays connected.
func TestGuessedNonce(t *testing.T) {
	for _, bit := range []int{3, 7, 8, 31, 32, 63} {
		hostile(t, func(a *address) {
			a.nonce ^= 1 << bit
			p, err := newPresence(netip.Addr{}, a.nonce, 1, time.Minute)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.close()) })
			a.presence = p.address
		}).RequireDeaf(t)
	}
}

// TestPresenceHidesNonce: all processes of a host can read the name of a presence.
func TestPresenceHidesNonce(t *testing.T) {
	needLibrary(t)
	tr, w, err := open(fabrictest.Rank{Options: map[string]string{optionProvider: "shm"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, tr.Close()) }()
	require.NotContains(t, w.presence.address, strconv.FormatUint(w.nonce, 16))
	require.Len(t, w.presence.address, len("@transportbench-ofi-")+26)
}

func TestHostilePeerIsCutOff(t *testing.T) {
	amlibtest.Hostile(t, func(t *testing.T) amlibtest.Pair { return hostile(t, func(*address) {}) })
}

func TestAddressesThatLie(t *testing.T) {
	needLibrary(t)
	var workers [2]*worker
	for i := range workers {
		tr, w, err := open(fabrictest.Rank{Options: map[string]string{optionProvider: "shm"},
			MaxPayload: 64})
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
		"another payload":     changed(func(a *address) { a.maximum++ }),
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
	require.True(t, w.library.Enqueue(0, amlib.Call, 1, []byte("into the bait")))
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
	tr, w, err := open(fabrictest.Rank{Options: map[string]string{optionProvider: "shm"},
		MaxPayload: 64})
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
