package memory

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/transport"
)

// TestRing compares the ring with a queue.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		largest := rapid.IntRange(0, 500).Draw(t, "largest")
		r := newRing(ringCapacity(64, 1, largest))
		var queue, held [][]byte
		published, seed := 0, uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				seed++
				p := bytes.Repeat([]byte{byte(seed)}, rapid.IntRange(0, largest).Draw(t, "size"))
				if r.push(transport.EventRequest, transport.Token(seed), p) {
					queue = append(queue, p)
				} else {
					require.NotEmpty(t, slices.Concat(queue, held), "an empty ring has room")
				}
			},
			"publish": func(t *rapid.T) {
				require.Equal(t, published < len(queue), r.publish())
				published = len(queue)
			},
			"pop": func(t *rapid.T) {
				kind, _, payload, ok := r.pop()
				require.Equal(t, published > 0, ok)
				if ok {
					require.Equal(t, transport.EventRequest, kind)
					require.Equal(t, queue[0], payload[:len(payload):len(payload)])
					held = append(held, payload)
					queue, published = queue[1:], published-1
				}
			},
			"release": func(t *rapid.T) {
				r.release()
				held = nil
			},
		})
	})
}
