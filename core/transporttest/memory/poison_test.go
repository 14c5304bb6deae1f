package memory

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// openPair opens two connected workers on a new Driver.
func openPair(t *testing.T) (a, b transport.Worker) {
	m := NewDriver()
	options, err := transport.ParseOptions(m.Info().Options, nil)
	require.NoError(t, err)
	var workers []transport.Worker
	for r := range 2 {
		opened, err := m.Open(t.Context(), transport.Config{Rank: r, Workers: 1, Peers: 1,
			InFlight: 4, MaxPayload: 1024, Options: options})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, opened.Close()) })
		w, err := opened.NewWorker(0)
		require.NoError(t, err)
		workers = append(workers, w)
	}
	a, b = workers[0], workers[1]
	require.NoError(t, a.Connect(t.Context(), 0, b.Address()))
	require.NoError(t, b.Connect(t.Context(), 0, a.Address()))
	return a, b
}

func TestPoisonOverwritesAtNextPoll(t *testing.T) {
	a, b := openPair(t)
	poisoned := Poison(b)
	events := make([]transport.Event, 4)
	send := func(payloads ...[]byte) {
		for _, p := range payloads {
			n, err := a.Post([]transport.Op{{Kind: transport.OpCall, Payload: p}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		require.NoError(t, a.Flush())
	}

	send([]byte("first"), nil, []byte("second one"))
	n, err := poisoned.Poll(events)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	held := [][]byte{events[0].Payload, events[1].Payload, events[2].Payload}
	require.Equal(t, "first", string(held[0]))
	require.Empty(t, held[1])
	require.Equal(t, "second one", string(held[2]))
	require.Equal(t, cap(held[0]), len(held[0]), "an append must not reach the next payload")

	send([]byte("third"))
	n, err = poisoned.Poll(events)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, "third", string(events[0].Payload))
	require.Equal(t, bytes.Repeat([]byte{poison}, 5), held[0])
	require.Equal(t, bytes.Repeat([]byte{poison}, 10), held[2])
}

// TestPoisonKeepsOptionalInterfaces tries all combinations of the interfaces.
func TestPoisonKeepsOptionalInterfaces(t *testing.T) {
	a, _ := openPair(t)
	sound := a.(*worker)
	type (
		plain  struct{ transport.Worker }
		waits  = transport.Waiter
		probes = transport.Prober
		counts = transport.StatsReader
	)
	for _, w := range []transport.Worker{
		plain{sound},
		struct {
			plain
			waits
		}{plain{sound}, sound},
		struct {
			plain
			probes
		}{plain{sound}, sound},
		struct {
			plain
			counts
		}{plain{sound}, sound},
		struct {
			plain
			waits
			probes
		}{plain{sound}, sound, sound},
		struct {
			plain
			waits
			counts
		}{plain{sound}, sound, sound},
		struct {
			plain
			probes
			counts
		}{plain{sound}, sound, sound},
		sound,
	} {
		p := Poison(w)
		require.Equal(t, optional(w), optional(p))
	}
}

func optional(w transport.Worker) string {
	_, waits := w.(transport.Waiter)
	_, probes := w.(transport.Prober)
	_, counts := w.(transport.StatsReader)
	return fmt.Sprintf("waits %v, probes %v, counts %v", waits, probes, counts)
}
