package ring

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/transport"
)

func newCallSlots(t testing.TB, g CallGeometry) (*Caller, *Answerer) {
	b := alignedMemory(g.Bytes())
	c, err := NewCaller(b, g)
	require.NoError(t, err)
	a, err := NewAnswerer(b, g)
	require.NoError(t, err)
	return c, a
}

// drain is the Drain of either side of call slots.
type drain func(transport.PeerID, []transport.Event) (int, error)

// one returns the next message, or false.
func (d drain) one() (m Message, ok bool, err error) {
	var e [1]transport.Event
	n, err := d(0, e[:])
	return Message{Kind(e[0].Kind), uint64(e[0].Token), e[0].Payload}, n > 0, err
}

// all drains until nothing is left, past the looks at the oldest call alone.
func (d drain) all(t testing.TB) (got []Message) {
	for range quickLooks + 2 {
		for {
			m, ok, err := d.one()
			require.NoError(t, err)
			if !ok {
				break
			}
			got = append(got, m)
		}
	}
	return got
}

func TestCallsOfEveryLength(t *testing.T) {
	for i, slots := range []int{1, 2, 5, 1, 2, 5} {
		g := CallGeometry{Slots: slots, Wide: i >= 3, Buffer: 256}
		c, a := newCallSlots(t, g)
		for n := range g.MaxPayload() + 1 {
			require.NoError(t, c.Call(uint64(n)<<32, pattern(1, n)))
			calls := drain(a.Drain).all(t)
			require.Len(t, calls, 1)
			require.True(t, bytes.Equal(pattern(1, n), calls[0].Payload), "call of %d bytes", n)
			require.NoError(t, a.Reply(calls[0].Token, pattern(2, n)))
			replies := drain(c.Drain).all(t)
			require.Len(t, replies, 1)
			require.EqualValues(t, uint64(n)<<32, replies[0].Token)
			require.True(t, bytes.Equal(pattern(2, n), replies[0].Payload), "reply of %d bytes", n)
		}
		require.ErrorIs(t, c.Call(0, make([]byte, g.MaxPayload()+1)), ErrTooLong)
	}
}

func TestRepliesWithoutACall(t *testing.T) {
	c, a := newCallSlots(t, CallGeometry{Slots: 3, Buffer: 64})
	require.ErrorIs(t, a.Reply(0, nil), ErrNoCall)
	require.ErrorIs(t, a.Reply(99, nil), ErrNoCall)
	require.NoError(t, c.Call(1, nil))
	call := drain(a.Drain).all(t)[0]
	require.ErrorIs(t, a.Reply(call.Token, make([]byte, 65)), ErrTooLong)
	require.NoError(t, a.Reply(call.Token, nil))
	require.ErrorIs(t, a.Reply(call.Token, nil), ErrNoCall)
}

// TestCallsModel compares call slots with a table of open calls. Replies come in any
// order, and payloads stay in use while the other side continues.
func TestCallsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := CallGeometry{Slots: rapid.IntRange(1, 6).Draw(rt, "slots"),
			Wide: rapid.Bool().Draw(rt, "wide"), Buffer: 128}
		c, a := newCallSlots(t, g)
		inFlight := max(1, g.Slots-1)
		token := uint64(0)
		posted := []uint64{}        // not yet polled, in order
		open := map[uint64]uint64{} // the answerer's token to the caller's
		answered := map[uint64]bool{}
		size := func(token uint64) int { return int(token*37) % (g.MaxPayload() + 1) }
		var held []Message // calls of the last poll
		intact := func() {
			for _, m := range held {
				if caller, ok := open[m.Token]; ok {
					require.True(rt, bytes.Equal(pattern(caller, size(caller)), m.Payload))
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"call": func(rt *rapid.T) {
				err := c.Call(token, pattern(token, size(token)))
				if len(posted)+len(open)+len(answered) < inFlight {
					require.NoError(rt, err)
				} else if err != nil {
					require.ErrorIs(rt, err, ErrFull)
				}
				if err == nil {
					posted = append(posted, token)
					token++
				}
				intact()
			},
			"poll calls": func(rt *rapid.T) {
				held = drain(a.Drain).all(t)
				require.Len(rt, held, len(posted))
				for i, m := range held {
					require.NotContains(rt, open, m.Token)
					open[m.Token] = posted[i]
				}
				posted = posted[:0]
				intact()
			},
			"reply": func(rt *rapid.T) {
				for mine, theirs := range open { // in the random order of the map
					require.NoError(rt, a.Reply(mine, pattern(theirs+1, size(theirs+1))))
					delete(open, mine)
					answered[theirs] = true
					break
				}
			},
			"poll replies": func(rt *rapid.T) {
				replies := drain(c.Drain).all(t)
				require.Len(rt, replies, len(answered))
				for _, m := range replies {
					require.True(rt, answered[m.Token])
					delete(answered, m.Token)
					require.True(rt, bytes.Equal(pattern(m.Token+1, size(m.Token+1)), m.Payload))
				}
			},
		})
	})
}

func TestCallsConcurrently(t *testing.T) {
	for _, slots := range []int{1, 2, 9} {
		const calls = 50_000
		g := CallGeometry{Slots: slots, Buffer: 192}
		c, a := newCallSlots(t, g)
		length := func(token uint64) int { return int(token*7) % (g.MaxPayload() + 1) }
		done := make(chan error, 1)
		go func() {
			// Hold two calls and answer them in reverse.
			var held []Message
			for answered := 0; answered < calls; {
				m, ok, err := drain(a.Drain).one()
				if err != nil {
					done <- err
					return
				}
				if ok {
					held = append(held, Message{m.Kind, m.Token, bytes.Clone(m.Payload)})
				} else {
					runtime.Gosched()
				}
				if !ok || len(held) == 2 {
					for i := len(held) - 1; i >= 0; i-- {
						if err := a.Reply(held[i].Token, held[i].Payload); err != nil {
							done <- err
							return
						}
						answered++
					}
					held = held[:0]
				}
			}
			done <- nil
		}()
		next, got := uint64(0), 0
		for got < calls {
			for next < calls && c.Call(next, pattern(next, length(next))) == nil {
				next++
			}
			m, ok, err := drain(c.Drain).one()
			require.NoError(t, err)
			if !ok {
				runtime.Gosched()
				continue
			}
			if !bytes.Equal(m.Payload, pattern(m.Token, length(m.Token))) {
				t.Fatalf("the reply to call %d has %d bytes of another", m.Token, len(m.Payload))
			}
			got++
		}
		require.NoError(t, <-done)
	}
}

func TestCallsDoNotAllocate(t *testing.T) {
	c, a := newCallSlots(t, CallGeometry{Slots: 4, Buffer: 1024})
	small, large := make([]byte, 32), make([]byte, 1000)
	events := make([]transport.Event, 2)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = c.Call(1, small)
		_ = c.Call(2, large)
		_, _ = a.Drain(0, events)
		for _, e := range events {
			_ = a.Reply(uint64(e.Token), e.Payload)
		}
		_, _ = c.Drain(0, events)
	}))
}

func TestCallGeometryIsChecked(t *testing.T) {
	for _, g := range []CallGeometry{{}, {Slots: -1}, {Slots: 1, Buffer: 3},
		{Slots: 1, Buffer: -64}, {Slots: 1 << 30}} {
		require.Error(t, g.Check(), "%+v", g)
	}
	g := CallGeometry{Slots: 2}
	_, err := NewCaller(alignedMemory(g.Bytes())[:64], g)
	require.ErrorContains(t, err, "bytes")
	_, err = NewAnswerer(nil, CallGeometry{})
	require.Error(t, err)
}

// FuzzHostileCalls lets either side write anything anywhere. The other must return
// messages inside its memory or an error, and never fault.
func FuzzHostileCalls(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0xff, 0xff, 0})
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 0, 0}, 10))
	f.Add(append(bytes.Repeat([]byte{4, 0, 112, 0, 0, 0}, 10), 0))
	f.Fuzz(func(t *testing.T, scribble []byte) {
		g := CallGeometry{Slots: 3, Wide: len(scribble)%2 == 1, Buffer: 128}
		b := alignedMemory(g.Bytes())
		c, err := NewCaller(b, g)
		require.NoError(t, err)
		a, err := NewAnswerer(b, g)
		require.NoError(t, err)
		within := func(payload []byte, memory unsafe.Pointer, size int) bool {
			at := uintptr(unsafe.Pointer(unsafe.SliceData(payload))) - uintptr(memory)
			return at <= uintptr(size) && uintptr(len(payload)) <= uintptr(size)-at
		}
		inside := func(payload []byte, c *calls) bool {
			return len(payload) == 0 || within(payload, c.base, len(b)) ||
				within(payload, unsafe.Pointer(&c.copies[0]), len(c.copies)*2*SlotSize)
		}
		for len(scribble) >= 6 {
			at := int(binary.LittleEndian.Uint16(scribble)) % (len(b) - 4)
			_ = c.Call(7, scribble)
			copy(b[at:], scribble[2:6])
			if m, ok, err := drain(a.Drain).one(); err == nil && ok {
				require.True(t, inside(m.Payload, &a.calls))
				_ = a.Reply(m.Token, m.Payload)
			}
			if m, ok, err := drain(c.Drain).one(); err == nil && ok {
				require.True(t, inside(m.Payload, &c.calls))
			}
			scribble = scribble[6:]
		}
	})
}
