package mpsc

import (
	"encoding/binary"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// newQueue returns a queue on the heap, where the race detector sees it.
func newQueue(t *testing.T, slots int) []byte {
	memory := make([]byte, Bytes(slots))
	q, err := New(memory, slots)
	require.NoError(t, err)
	q.Clear()
	return memory
}

func TestQueueIsBounded(t *testing.T) {
	q, err := New(newQueue(t, 4), 4)
	require.NoError(t, err)
	var m Message
	for lap := range uint64(5) {
		require.False(t, q.Pop(&m))
		for i := range uint64(4) {
			require.True(t, q.Push(uint32(i), lap<<8|i, []byte{byte(i), 9}))
		}
		require.False(t, q.Push(0, 0, nil), "full")
		for i := range uint64(4) {
			require.True(t, q.Pop(&m))
			require.Equal(t, Message{Kind: uint32(i), Token: lap<<8 | i,
				Payload: []byte{byte(i), 9}}, m)
		}
		q.Release()
	}
}

func TestNewRefuses(t *testing.T) {
	for _, slots := range []int{-1, 0, 1, 3, 1 << 20} {
		_, err := New(make([]byte, 4096), slots)
		require.ErrorContains(t, err, "want a power of two")
	}
}

// TestProducers checks that every message of several producers arrives once, in the order of its
// producer.
func TestProducers(t *testing.T) {
	const producers, each, slots = 4, 5000, 64
	memory := newQueue(t, slots)
	var sending sync.WaitGroup
	for p := range uint64(producers) {
		q, err := New(memory, slots)
		require.NoError(t, err)
		sending.Go(func() {
			var payload [MaxPayload]byte
			for i := uint64(0); i < each; {
				binary.NativeEndian.PutUint64(payload[:], i)
				if q.Push(uint32(p), i, payload[:]) {
					i++
				} else {
					runtime.Gosched()
				}
			}
		})
	}
	q, err := New(memory, slots)
	require.NoError(t, err)
	var next [producers]uint64
	var m Message
	for n := 0; n < producers*each; {
		if !q.Pop(&m) {
			runtime.Gosched()
			continue
		}
		n++
		if m.Token != next[m.Kind] || binary.NativeEndian.Uint64(m.Payload) != m.Token {
			t.Fatalf("producer %d: token %d, want %d", m.Kind, m.Token, next[m.Kind])
		}
		next[m.Kind]++
	}
	sending.Wait()
	require.False(t, q.Pop(&m))
}
