package uring

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A queue keeps its order and never overwrites an entry that was not read, also where counts wrap
// around.
func TestQueueIsFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := uint32(1) << rapid.IntRange(0, 6).Draw(t, "log entries")
		head := rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(1<<32-70, 1<<32-1)).Draw(t, "first")
		tail := head
		memory := make([]int, entries)
		var want []int
		next := 1
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			require.Equal(t, uint32(len(want)), used(head, tail))
			require.Equal(t, entries-uint32(len(want)), room(head, tail, entries))
			if rapid.Bool().Draw(t, "write") {
				if room(head, tail, entries) > 0 {
					at := place(tail, entries)
					require.Zero(t, memory[at], "an entry that was not read")
					memory[at] = next
					want = append(want, next)
					next++
					tail++
				}
			} else if used(head, tail) > 0 {
				at := place(head, entries)
				require.Equal(t, want[0], memory[at])
				memory[at] = 0
				want = want[1:]
				head++
			}
		}
	})
}

// A head that is ahead of the tail, or more than a queue behind it, leaves no room.
func FuzzRoom(f *testing.F) {
	f.Add(uint32(0), uint32(0), uint8(3))
	f.Add(^uint32(0), uint32(4), uint8(2))
	f.Add(uint32(5), uint32(4), uint8(4))
	f.Fuzz(func(t *testing.T, head, tail uint32, bits uint8) {
		entries := uint32(1) << (bits % 16)
		n := room(head, tail, entries)
		if n > entries || n > 0 && used(head, tail)+n != entries {
			t.Fatalf("room(%d, %d, %d) is %d", head, tail, entries, n)
		}
		if p := place(tail, entries); p >= entries {
			t.Fatalf("place(%d, %d) is %d", tail, entries, p)
		}
	})
}

// The kernel gets each byte of the ring once, in order, and only after its reader has done with it.
func FuzzWindow(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 0, 9})
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, steps []byte) {
		const chunk, count = 8, 4
		w := window{size: chunk * count, chunk: chunk}
		var owner [chunk * count]bool // given to the kernel and not filled yet
		var unread [chunk * count]bool
		consumed := uint64(0)
		for _, step := range steps {
			for position, ok := w.grant(consumed); ok; position, ok = w.grant(consumed) {
				for i := position; i < position+chunk; i++ {
					if at := i % w.size; owner[at] || unread[at] {
						t.Fatalf("byte %d is given while it is in use", i)
					}
					owner[i%w.size] = true
				}
			}
			switch n := int(step >> 1); {
			case step&1 == 0:
				before := w.received
				if w.fill(n) != (uint64(n) <= w.given-before) {
					t.Fatalf("filling %d of %d bytes", n, w.given-before)
				}
				for i := before; i < w.received; i++ {
					if !owner[i%w.size] {
						t.Fatalf("byte %d is filled and was not given", i)
					}
					owner[i%w.size], unread[i%w.size] = false, true
				}
			default:
				for to := min(w.received, consumed+uint64(n)); consumed < to; consumed++ {
					unread[consumed%w.size] = false
				}
			}
			if w.fill(-1) || w.left() > w.size {
				t.Fatal("a window with more than its ring")
			}
		}
	})
}
