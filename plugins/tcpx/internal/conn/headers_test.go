package conn

import (
	"math/rand/v2"
	"testing"
	"transportbench/core/fabric/queue"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

// TestHeaderCache: the first bytes of each message are found, however messages are cut into
// requests and requests into fragments, after empty messages and across requests.
func TestHeaderCache(t *testing.T) {
	const size, capacity = 16, 8
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		announced := queue.New[record](capacity)
		h := &headerCache{messageSlots: newMessageSlots(size, announced.Cap())}
		var stream []byte // announced and not cut yet
		want := map[uint64][]byte{}
		for range 200 {
			for !announced.Full() && random.IntN(3) > 0 {
				message := make([]byte, []int{0, 1, 15, 16, 17, 100, 5000}[random.IntN(7)])
				fill(message, uint64(announced.Last()))
				want[announced.Last()] = message
				announced.Push().size = uint32(len(message))
				stream = append(stream, message...)
			}
			if len(stream) == 0 {
				for !announced.Empty() {
					announced.Pop() // empty ones
				}
				continue
			}
			r := &receiveRequest{total: random.IntN(min(len(stream), 4000)) + 1}
			memory := make([]byte, 64<<10)
			for at := 0; at < r.total; {
				n := min(random.IntN(700)+1, r.total-at)
				source := at + 8192*(1+len(r.fragments)%7) // fragments do not overlap
				copy(memory[source:], stream[at:at+n])
				r.fragments = append(r.fragments, bounce.Fragment{Source: uint32(source),
					Length: uint32(n), Destination: uint32(at)})
				at += n
			}
			random.Shuffle(len(r.fragments), func(i, k int) {
				r.fragments[i], r.fragments[k] = r.fragments[k], r.fragments[i]
			})
			require.NoError(t, h.take(&announced, memory, r))
			stream = stream[r.total:]
			for left := len(stream); !announced.Empty(); { // deliver what has arrived
				rest := 0
				for k := announced.First() + 1; k != announced.Last(); k++ {
					rest += len(want[k])
				}
				if left > rest {
					break
				}
				message := want[announced.First()]
				require.Equal(t, message[:min(size, len(message))],
					h.of(announced.First(), len(message)), "message %d of seed %d",
					announced.First(), seed)
				announced.Pop()
			}
		}
		require.Positive(t, announced.First())
	}
}

// TestHeaderCacheRefuses: bytes without an announced message and requests with a hole are errors.
func TestHeaderCacheRefuses(t *testing.T) {
	announced := queue.New[record](4)
	h := &headerCache{messageSlots: newMessageSlots(16, announced.Cap())}
	r := &receiveRequest{total: 10, fragments: []bounce.Fragment{{Length: 10}}}
	require.ErrorIs(t, h.take(&announced, make([]byte, 100), r), transport.ErrCorrupt)
	announced.Push().size = 10
	r.fragments = []bounce.Fragment{{Length: 5}, {Source: 5, Length: 4, Destination: 6}}
	require.ErrorIs(t, h.take(&announced, make([]byte, 100), r), transport.ErrCorrupt)
}
