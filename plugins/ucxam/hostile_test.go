package ucxam

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/amlib"
	"transportbench/core/fabric/amlib/amlibtest"
	"transportbench/core/fabric/fabrictest"
)

// hostile connects a worker to a worker of package ucp alone. change may change the address of the
// latter that the former gets.
func hostile(t *testing.T, change func(*address)) amlibtest.Pair {
	needUCX(t)
	same := map[string]string{optionTLS: "posix", optionVariables: "UCX_POSIX_FIFO_SIZE=256"}
	tr, w, err := open(fabrictest.Rank{Options: same})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	other, its, err := open(fabrictest.Rank{Options: same, InFlight: 64, MaxPayload: 8192})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	a, err := decodeAddress(its.Address())
	require.NoError(t, err)
	window := w.endpoint.settings.worker.Window
	a.window = uint32(window)
	change(&a)
	require.NoError(t, w.Connect(t.Context(), 0, a.encode()))
	b, err := decodeAddress(w.Address())
	require.NoError(t, err)
	_, err = its.ucp.Connect(0, b.nonce, b.ucp)
	require.NoError(t, err)
	return amlibtest.Pair{Worker: w, Own: &w.ucp.Queue, Window: window, Peer: &its.ucp.Queue}
}

func TestHostilePeerIsCutOff(t *testing.T) {
	honest := func(t *testing.T) amlibtest.Pair { return hostile(t, func(*address) {}) }
	amlibtest.Hostile(t, honest)
	t.Run("too large", func(t *testing.T) {
		p := honest(t)
		require.True(t, p.Peer.Enqueue(0, amlib.Call, 1, make([]byte, 5000)))
		p.RequireCutOff(t, 0)
	})
}

// TestGuessedNonce: messages of a sender whose nonce differs from the peer's by a bit are none of
// the peer's, and the peer stays connected.
func TestGuessedNonce(t *testing.T) {
	for _, bit := range []int{3, 7, 8, 31, 32, 63} {
		hostile(t, func(a *address) { a.nonce ^= 1 << bit }).RequireDeaf(t)
	}
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
