package erpc

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram/faulty"
	"transportbench/core/transport"
)

// TestShortMessagesArePadded: the requests and responses of batches after the first have one
// length, whatever their payloads, except over ports that send each datagram by itself. Payloads
// arrive without the padding, which members verify.
func TestShortMessagesArePadded(t *testing.T) {
	const calls, window, short, long = 64, 8, 16, 48
	for offload, unpadded := range map[string]int{"auto": window / 2, "off": calls / 2} {
		n := newNetwork(1, faulty.Faults{})
		s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: window,
			MaxPayload: 64}, map[string]string{"offload": offload})
		drawn := 0
		alternating := func(*rand.Rand) int { // of a request and its response, in turn
			drawn++
			return []int{short, long, long, short}[drawn%4]
		}
		a, b := n.member(t, s, 256, calls, alternating), n.member(t, s, 256, 0, alternating)
		n.recorded = &[]flight{}
		join(t, a, b)
		n.run(t, second, a, b)
		lengths := map[kind]map[int]int{kindRequest: {}, kindResponse: {}}
		for _, f := range *n.recorded {
			if of := lengths[parse(f.data).kind]; of != nil {
				of[len(f.data)]++
			}
		}
		want := map[int]int{headerSize + short: unpadded, headerSize + long: calls - unpadded}
		require.Equal(t, map[kind]map[int]int{kindRequest: want, kindResponse: want}, lengths,
			"offload=%s", offload)
	}
}
