package ucxam

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/amlib"
	"transportbench/core/fabric/amlib/amlibtest"
	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp/ucptest"
)

// hostile connects a worker to its, a worker of package ucp alone. change may change the address of
// the latter that the former gets.
func hostile(t *testing.T, change func(*address)) (p amlibtest.Pair, its *worker) {
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
	return amlibtest.Pair{Worker: w, Own: &w.ucp.Queue, Window: window, Peer: &its.ucp.Queue}, its
}

// honest is hostile without a change.
func honest(t *testing.T) (amlibtest.Pair, *worker) { return hostile(t, func(*address) {}) }

func TestHostilePeerIsCutOff(t *testing.T) {
	amlibtest.Hostile(t, func(t *testing.T) amlibtest.Pair { p, _ := honest(t); return p })
	t.Run("too large", func(t *testing.T) {
		p, _ := honest(t)
		require.True(t, p.Peer.Enqueue(0, amlib.Call, 1, make([]byte, 5000)))
		p.RequireCutOff(t, 0)
	})
}

// TestGuessedNonce: messages of a sender whose nonce differs from the peer's by a bit are none of
// the peer's, and the peer stays connected.
func TestGuessedNonce(t *testing.T) {
	for _, bit := range []int{3, 7, 8, 31, 32, 63} {
		p, _ := hostile(t, func(a *address) { a.nonce ^= 1 << bit })
		p.RequireDeaf(t)
	}
}

// packed is a message of a pack from a worker: header, the size that it claims, and a payload.
func packed(from *worker, kind amlib.Kind, size uint64, payload string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, 7)
	b = binary.LittleEndian.AppendUint64(b, from.nonce^uint64(kind))
	b = binary.LittleEndian.AppendUint64(b, size)
	return append(b, payload...)
}

// TestMalformedPackIsCutOff sends packs that begin with a good message.
func TestMalformedPackIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		kind    amlib.Kind
		size    uint64
		payload string
		cut     int // bytes that the end of the pack lacks
	}{
		"a size beyond the end":    {amlib.Call, 9, "8 bytes.", 0},
		"a size of all bits":       {amlib.Call, ^uint64(0), "8 bytes.", 0},
		"a size that wraps":        {amlib.Call, ^uint64(0) - 7, "8 bytes.", 0},
		"padding beyond the end":   {amlib.Call, 5, "short", 0},
		"cut in a header":          {amlib.Call, 0, "", 8},
		"a rest that is no header": {amlib.Call, 8, "8 bytes.rest", 0},
		"a reply to no call":       {amlib.Reply, 8, "8 bytes.", 0},
		"an unknown kind":          {amlib.Lost, 8, "8 bytes.", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, its := honest(t)
			bad := packed(its, c.kind, c.size, c.payload)
			ucptest.SendPack(its.ucp, 0,
				append(packed(its, amlib.Call, 8, "good one"), bad[:len(bad)-c.cut]...))
			good := 1
			if name == "a rest that is no header" {
				good = 2
			}
			p.RequireCutOff(t, good)
		})
	}
}

// TestPackOfNobody sends packs that name no sender, and then a good one of a call and an empty one.
func TestPackOfNobody(t *testing.T) {
	p, its := honest(t)
	for _, size := range []int{0, 1, 23} {
		ucptest.SendPack(its.ucp, 0, make([]byte, size))
	}
	ucptest.SendPack(its.ucp, 0,
		append(packed(its, amlib.Call, 5, "hello\x00\x00\x00"), packed(its, amlib.Call, 0, "")...))
	var got []string
	events := make([]transport.Event, 4)
	for polls := 0; len(got) < 2; polls++ {
		require.Less(t, polls, 1_000_000, "got only %q", got)
		p.Peer.Progress()
		n, err := p.Worker.Poll(events)
		require.NoError(t, err)
		for _, e := range events[:n] {
			require.Equal(t, transport.EventRequest, e.Kind)
			got = append(got, string(e.Payload))
		}
	}
	require.Equal(t, []string{"hello", ""}, got)
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
