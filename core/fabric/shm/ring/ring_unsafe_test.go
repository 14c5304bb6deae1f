package ring

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/transport"
)

// alignedMemory returns heap memory, so that the race detector sees the ring.
func alignedMemory(n int) []byte {
	words := make([]uint64, (n+2*lineSize)/8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	skip := -int(uintptr(unsafe.Pointer(&words[0]))) & (lineSize - 1)
	return b[skip : skip+n]
}

func newRing(t testing.TB, a Algorithm, g Geometry) (Producer, Consumer) {
	b := alignedMemory(g.Bytes())
	p, err := NewProducer(b, a, g)
	require.NoError(t, err)
	c, err := NewConsumer(b, a, g)
	require.NoError(t, err)
	return p, c
}

func eachRing(t *testing.T, f func(t *testing.T, a Algorithm, wide bool)) {
	for a := range algorithmNames {
		for _, wide := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/wide=%t", Algorithm(a), wide),
				func(t *testing.T) { f(t, Algorithm(a), wide) })
		}
	}
}

func pattern(token uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(token)*31 + byte(i)*7 + byte(i>>8)
	}
	return b
}

func TestEveryLength(t *testing.T) {
	eachRing(t, func(t *testing.T, a Algorithm, wide bool) {
		g := Geometry{Slots: 8, Wide: wide, Arena: 1024}
		p, c := newRing(t, a, g)
		for lap := range 3 {
			for n := range g.MaxPayload() + 1 {
				token := uint64(lap)<<40 | uint64(n)
				require.NoError(t, p.Push(KindB, token, pattern(token, n)))
				p.Publish()
				var m Message
				ok, err := c.Pop(&m)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, KindB, m.Kind)
				require.Equal(t, token, m.Token)
				require.True(t, bytes.Equal(pattern(token, n), m.Payload), "length %d", n)
				c.Release()
			}
		}
		require.ErrorIs(t, p.Push(KindA, 0, make([]byte, g.MaxPayload()+1)), ErrTooLong)
	})
}

func TestFullRingRecovers(t *testing.T) {
	eachRing(t, func(t *testing.T, a Algorithm, wide bool) {
		p, c := newRing(t, a, Geometry{Slots: 8, Wide: wide})
		for lap := range 5 {
			n := 0
			for ; p.Push(KindA, uint64(n), nil) == nil; n++ {
			}
			require.ErrorIs(t, p.Push(KindA, 0, nil), ErrFull)
			require.GreaterOrEqual(t, n, 6, "lap %d: all but the quarter that is not reported yet",
				lap)
			p.Publish()
			for i := range n {
				var m Message
				ok, err := c.Pop(&m)
				require.NoError(t, err)
				require.True(t, ok)
				require.EqualValues(t, i, m.Token)
			}
			ok, err := c.Pop(&Message{})
			require.NoError(t, err)
			require.False(t, ok, "nothing was released, so nothing new can arrive")
			c.Release()
		}
	})
}

func TestVisibility(t *testing.T) {
	eachRing(t, func(t *testing.T, a Algorithm, wide bool) {
		p, c := newRing(t, a, Geometry{Slots: 8, Wide: wide})
		for range 3 {
			require.NoError(t, p.Push(KindA, 1, nil))
		}
		require.Equal(t, a == Lamport, c.Empty())
		p.Publish()
		require.False(t, c.Empty())
	})
}

// TestModel compares a ring with a queue under random batches of random sizes.
func TestModel(t *testing.T) {
	eachRing(t, func(t *testing.T, a Algorithm, wide bool) {
		rapid.Check(t, func(rt *rapid.T) {
			g := Geometry{Slots: 1 << rapid.IntRange(2, 5).Draw(rt, "slots"), Wide: wide,
				Arena: 1 << rapid.IntRange(8, 12).Draw(rt, "arena")}
			p, c := newRing(t, a, g)
			var queue []Message
			visible, borrowed := 0, 0
			token := uint64(0)
			rt.Repeat(map[string]func(*rapid.T){
				"push": func(rt *rapid.T) {
					payload := pattern(token, rapid.IntRange(0, g.MaxPayload()).Draw(rt, "length"))
					if err := p.Push(KindA, token, payload); err == nil {
						queue = append(queue, Message{KindA, token, payload})
						token++
					} else {
						require.ErrorIs(rt, err, ErrFull)
					}
					if a != Lamport {
						visible = len(queue)
					}
				},
				"publish": func(*rapid.T) { p.Publish(); visible = len(queue) },
				"pop": func(rt *rapid.T) {
					var m Message
					ok, err := c.Pop(&m)
					require.NoError(rt, err)
					require.Equal(rt, borrowed < visible, ok)
					if ok {
						require.Equal(rt, queue[borrowed].Token, m.Token)
						require.True(rt, bytes.Equal(queue[borrowed].Payload, m.Payload))
						borrowed++
					}
				},
				"release": func(*rapid.T) {
					c.Release()
					queue, visible, borrowed = queue[borrowed:], visible-borrowed, 0
				},
				"drained ring takes the longest": func(rt *rapid.T) {
					if len(queue) != 0 {
						return
					}
					payload := pattern(token, g.MaxPayload())
					require.NoError(rt, p.Push(KindA, token, payload))
					queue = append(queue, Message{KindA, token, payload})
					token++
					if a != Lamport {
						visible = 1
					}
				},
			})
		})
	})
}

// TestConcurrent runs both sides at once. Under -race the detector checks the orderings
// that the comments at the atomics state.
func TestConcurrent(t *testing.T) {
	eachRing(t, func(t *testing.T, a Algorithm, wide bool) {
		const messages = 50_000
		g := Geometry{Slots: 16, Wide: wide, Arena: 1024}
		p, c := newRing(t, a, g)
		done := make(chan error, 1)
		go func() {
			for token := uint64(0); token < messages; token++ {
				payload := pattern(token, int(token*7)%(g.MaxPayload()+1))
				for {
					err := p.Push(KindA, token, payload)
					if err == nil {
						break
					}
					if err != ErrFull {
						done <- err
						return
					}
					p.Publish()
					runtime.Gosched()
				}
				if token%5 == 0 {
					p.Publish()
				}
			}
			p.Publish()
			done <- nil
		}()
		for token := uint64(0); token < messages; {
			var m Message
			ok, err := c.Pop(&m)
			require.NoError(t, err)
			if !ok {
				c.Release()
				runtime.Gosched()
				continue
			}
			if m.Token != token || !bytes.Equal(m.Payload,
				pattern(token, int(token*7)%(g.MaxPayload()+1))) {
				t.Fatalf("message %d arrived as %d with %d bytes", token, m.Token, len(m.Payload))
			}
			token++
			if token%3 == 0 {
				c.Release()
			}
		}
		require.NoError(t, <-done)
	})
}

// post is PushBatch of the producers that have one, and Push in turn of the other.
func post(p Producer, ops []transport.Op) (n int, err error) {
	if p, ok := p.(interface {
		PushBatch(ops []transport.Op) (int, error)
	}); ok {
		return p.PushBatch(ops)
	}
	for ; n < len(ops) && err == nil; n++ {
		op := &ops[n]
		if err = p.Push(Kind(op.Kind), uint64(op.Token), op.Payload); err != nil {
			return n, err
		}
	}
	return n, nil
}

// TestConcurrentBatches is TestConcurrent as workers do it: PushBatch of several ops, which
// takes a part of them if the ring is full, and Drain into more events than come or fewer.
func TestConcurrentBatches(t *testing.T) {
	const messages, maxBatch = 10_000, 24
	kind := func(token uint64) Kind { return KindA + Kind(token%2) }
	eachRing(t, func(t *testing.T, a Algorithm, wide bool) {
		g := Geometry{Slots: 16, Wide: wide, Arena: 1024}
		size := func(token uint64) int { // most fit into a slot
			if token%5 > 0 {
				return int(token*7) % (g.InlineSize() + 1)
			}
			return int(token*7) % (g.MaxPayload() + 1)
		}
		p, c := newRing(t, a, g)
		done := make(chan error, 1)
		go func() {
			var ops []transport.Op
			for token := uint64(0); token < messages || len(ops) > 0; {
				for more := token%maxBatch + 1; more > 0 && token < messages; more-- {
					ops = append(ops, transport.Op{Kind: transport.OpKind(kind(token)), Peer: 3,
						Token: transport.Token(token), Payload: pattern(token, size(token))})
					token++
				}
				for len(ops) > maxBatch || token == messages && len(ops) > 0 {
					n, err := post(p, ops)
					p.Publish()
					if ops = ops[n:]; err == nil {
						break
					}
					if err != ErrFull {
						done <- err
						return
					}
					runtime.Gosched()
				}
			}
			done <- nil
		}()
		events := make([]transport.Event, maxBatch)
		for token := uint64(0); token < messages; {
			n, err := c.Drain(3, events[:token%maxBatch+1])
			require.NoError(t, err)
			for _, e := range events[:n] {
				if e.Token != transport.Token(token) || e.Peer != 3 ||
					e.Kind != transport.EventKind(kind(token)) || e.Size != len(e.Payload) ||
					!bytes.Equal(e.Payload, pattern(token, size(token))) {
					t.Fatalf("message %d arrived as %+v", token, e)
				}
				token++
			}
			if n == 0 {
				runtime.Gosched()
			}
		}
		require.NoError(t, <-done)
		require.True(t, c.Empty())
	})
}

func TestZeroAllocations(t *testing.T) {
	eachRing(t, func(t *testing.T, a Algorithm, wide bool) {
		p, c := newRing(t, a, Geometry{Slots: 8, Wide: wide, Arena: 4096})
		small, large := make([]byte, 32), make([]byte, 1000)
		var m Message
		failed := false
		push := func(payload []byte) { failed = failed || p.Push(KindA, 1, payload) != nil }
		pop := func() {
			ok, err := c.Pop(&m)
			failed = failed || !ok || err != nil
		}
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			push(small)
			push(large)
			p.Publish()
			pop()
			pop()
			c.Release()
		}))
		require.False(t, failed, "a message was not pushed or not popped")
	})
}

func TestGeometryIsChecked(t *testing.T) {
	for _, g := range []Geometry{{}, {Slots: 3}, {Slots: 2}, {Slots: -8}, {Slots: 8, Arena: 100},
		{Slots: 8, Arena: 128}, {Slots: 8, Arena: 1 << 40}} {
		require.Error(t, g.Check(), "%+v", g)
	}
	g := Geometry{Slots: 8}
	_, err := NewProducer(alignedMemory(g.Bytes())[:100], Lamport, g)
	require.ErrorContains(t, err, "bytes")
	_, err = NewConsumer(alignedMemory(g.Bytes() + 8)[8:], Lamport, g)
	require.ErrorContains(t, err, "aligned")
}

// TestPositionWithinAWideSlot lets a peer write a position at which no message can begin. To follow
// it would be to run past the end of the ring.
func TestPositionWithinAWideSlot(t *testing.T) {
	g := Geometry{Slots: 4, Wide: true}
	for _, a := range []Algorithm{Lamport, Onesided} {
		b := alignedMemory(g.Bytes())
		p, err := NewProducer(b, a, g)
		require.NoError(t, err)
		for range g.Slots {
			require.NoError(t, p.Push(KindA, 1, nil))
		}
		p.Publish()
		binary.LittleEndian.PutUint64(b[headOffset:], 3)
		require.ErrorIs(t, p.Push(KindA, 1, nil), ErrCorrupt, a)
	}
	b := alignedMemory(g.Bytes())
	c, err := NewConsumer(b, Lamport, g)
	require.NoError(t, err)
	binary.LittleEndian.PutUint64(b[tailOffset:], 3)
	_, err = c.Pop(new(Message))
	require.ErrorIs(t, err, ErrCorrupt)
}

// FuzzHostileMemory lets a peer write anything anywhere. The ring must return messages
// inside its memory or an error, and never fault.
func FuzzHostileMemory(f *testing.F) {
	f.Add(uint8(0), []byte{0, 0, 1, 0xff, 0xff})
	f.Add(uint8(1), bytes.Repeat([]byte{1, 0}, 40))
	f.Add(uint8(2), []byte{})
	f.Add(uint8(4), bytes.Repeat([]byte{1, 0}, 40))
	f.Add(uint8(5), []byte{0, 1, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, which uint8, scribble []byte) {
		g := Geometry{Slots: 8, Wide: which/3%2 == 1, Arena: 1024}
		b := alignedMemory(g.Bytes())
		p, err := NewProducer(b, Algorithm(which%3), g)
		require.NoError(t, err)
		c, err := NewConsumer(b, Algorithm(which%3), g)
		require.NoError(t, err)
		inside := func(payload []byte) bool {
			start, low := uintptr(unsafe.Pointer(unsafe.SliceData(payload))),
				uintptr(unsafe.Pointer(unsafe.SliceData(b)))
			return len(payload) == 0 || start >= low && start+uintptr(len(payload)) <= low+
				uintptr(len(b))
		}
		for len(scribble) >= 6 {
			at := int(binary.LittleEndian.Uint16(scribble)) % (len(b) - 4)
			copy(b[at:], scribble[2:6])
			if p.Push(KindA, 9, scribble) != ErrCorrupt {
				p.Publish()
			}
			var m Message
			if ok, err := c.Pop(&m); err == nil && ok {
				require.True(t, inside(m.Payload))
				require.LessOrEqual(t, len(m.Payload), g.MaxPayload())
			}
			_, err := post(p, []transport.Op{{Kind: transport.OpCall}, {Kind: transport.OpReply,
				Payload: scribble}})
			if err != ErrCorrupt {
				p.Publish()
			}
			events := make([]transport.Event, 3)
			n, _ := c.Drain(0, events)
			for _, e := range events[:n] {
				require.True(t, inside(e.Payload))
				require.LessOrEqual(t, len(e.Payload), g.MaxPayload())
				require.Len(t, e.Payload, e.Size)
			}
			scribble = scribble[6:]
		}
	})
}
