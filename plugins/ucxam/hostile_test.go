package ucxam

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp"
)

// hostile connects a worker to a worker of package ucp, which can send what this transport
// never sends.
func hostile(t testing.TB) (w *worker, h *ucp.Worker) { return hostileAs(t, func(*address) {}) }

// hostileAs is hostile with another address than the hostile worker's for the other one.
func hostileAs(t testing.TB, change func(*address)) (w *worker, h *ucp.Worker) {
	needUCX(t)
	same := map[string]string{optionTLS: "posix", optionVariables: "UCX_POSIX_FIFO_SIZE=256"}
	tr, w, err := open(role{Options: same, MaxPayload: 4096})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	other, err := transport.ParseOptions(schema, same)
	require.NoError(t, err)
	opened, err := Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: 1, InFlight: 64,
		MaxPayload: 8192, Options: other})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	made, err := opened.NewWorker(0)
	require.NoError(t, err)
	its := made.(*worker)
	a, err := decodeAddress(its.Address())
	require.NoError(t, err)
	a.window = uint32(w.window)
	change(&a)
	require.NoError(t, w.Connect(t.Context(), 0, a.encode()))
	b, err := decodeAddress(w.Address())
	require.NoError(t, err)
	_, err = its.ucp.Connect(0, b.nonce, b.ucp)
	require.NoError(t, err)
	return w, its.ucp
}

// cutOff expects count events of h, then ErrCorrupt, the loss and nothing else.
func cutOff(t *testing.T, w *worker, h *ucp.Worker, count int) {
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

func TestHostilePeerIsCutOff(t *testing.T) {
	t.Run("reply to no call", func(t *testing.T) {
		w, h := hostile(t)
		require.True(t, h.Enqueue(0, ucp.Reply, 1, nil))
		cutOff(t, w, h, 0)
	})
	t.Run("more calls than the window", func(t *testing.T) {
		w, h := hostile(t)
		for i := range w.window + 1 {
			require.True(t, h.Enqueue(0, ucp.Call, uint64(i), []byte("call")))
		}
		cutOff(t, w, h, w.window)
	})
	t.Run("unknown kind", func(t *testing.T) {
		w, h := hostile(t)
		require.True(t, h.Enqueue(0, ucp.Lost, 1, nil))
		cutOff(t, w, h, 0)
	})
	t.Run("no kind", func(t *testing.T) {
		w, h := hostile(t)
		require.True(t, h.Enqueue(0, 0, 1, nil))
		cutOff(t, w, h, 0)
	})
	t.Run("too large", func(t *testing.T) {
		w, h := hostile(t)
		require.True(t, h.Enqueue(0, ucp.Call, 1, make([]byte, 5000)))
		cutOff(t, w, h, 0)
	})
	t.Run("a flood that is never polled", func(t *testing.T) {
		w, h := hostile(t)
		for range 1000 {
			for h.Enqueue(0, ucp.Call, 1, []byte("flood")) {
			}
			h.Flush()
			h.Progress()
			w.ucp.Progress() // without taking anything
		}
		cutOff(t, w, h, w.window)
	})
}

// TestGuessedNonce: messages of a sender whose nonce differs from the peer's by a bit are none of
// the peer's, and the peer stays connected.
func TestGuessedNonce(t *testing.T) {
	for _, bit := range []int{3, 7, 8, 31, 32, 63} {
		w, h := hostileAs(t, func(a *address) { a.nonce ^= 1 << bit })
		for kind := range ucp.Lost {
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

// TestStrangersAreDropped: messages of a probe are ignored when no probe runs.
func TestStrangersAreDropped(t *testing.T) {
	w, h := hostile(t)
	for kind := ucp.Kind(4); kind <= 6; kind++ {
		require.True(t, h.Enqueue(0, kind, 1<<40, nil))
	}
	require.True(t, h.Enqueue(0, ucp.Call, 9, []byte("honest")))
	h.Flush()
	e := next(t, w)
	require.Equal(t, transport.EventRequest, e.Kind)
	require.Equal(t, "honest", string(e.Payload))
}

func TestAddressesThatLie(t *testing.T) {
	_, w, err := openWith(t, map[string]string{optionTLS: "posix"})
	require.NoError(t, err)
	_, other, err := openWith(t, map[string]string{optionTLS: "posix"})
	require.NoError(t, err)
	good, err := decodeAddress(other.Address())
	require.NoError(t, err)
	for name, bytes := range map[string][]byte{
		"nothing":        nil,
		"not an address": []byte("127.0.0.1:80"),
		"cut short":      other.Address()[:len(other.Address())-1],
		"another window": address{nonce: good.nonce, window: good.window + 1, layout: good.layout,
			ucp: good.ucp}.encode(),
		"another layout": address{nonce: good.nonce, window: good.window, layout: good.layout + 1,
			ucp: good.ucp}.encode(),
		"no nonce": address{window: good.window, layout: good.layout, ucp: good.ucp}.encode(),
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, w.Connect(t.Context(), 0, bytes)) })
	}
	require.NoError(t, w.Connect(t.Context(), 0, other.Address()))
	require.Error(t, w.Connect(t.Context(), 0, other.Address()), "twice")
	require.Error(t, w.Connect(t.Context(), 1, other.Address()),
		"a PeerID beyond the configuration")
}

// FuzzDecodeAddress: decodeAddress accepts only what encode writes, and detects damage.
func FuzzDecodeAddress(f *testing.F) {
	f.Add(address{nonce: rand.Uint64(), window: 16, ucp: []byte("address")}.encode(),
		uint16(0), byte(0))
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

// FuzzParseVariables: every parsed variable has a name and a value without NUL bytes.
func FuzzParseVariables(f *testing.F) {
	f.Add("UCX_TLS=a,b,UCX_X=1")
	f.Add("UCX_=,=UCX_A")
	f.Fuzz(func(t *testing.T, text string) {
		given, err := parseVariables(text)
		if err != nil {
			return
		}
		for name, value := range given {
			require.NotEmpty(t, name)
			require.NotEmpty(t, value)
			require.NotContains(t, value, "\x00")
		}
	})
}
