package ucxam

import (
	"testing"

	"transportbench/core/fabric/amlib/amlibtest"
	"transportbench/core/fabric/fabrictest"
)

// TestLibraryProbe: the library's ping-pong carries the payloads, and refuses those that UCX would
// announce and fetch.
func TestLibraryProbe(t *testing.T) {
	needUCX(t)
	for _, lane := range []string{"posix", "tcp"} {
		t.Run(lane, func(t *testing.T) {
			a, b := fabrictest.Pair(t, Driver{}, fabrictest.Rank{
				Options: map[string]string{optionTLS: lane}, MaxPayload: 1 << 20})
			amlibtest.Probe(t, a, b, 0, 16, a.(*worker).ucp.ProbeLimit())
		})
	}
}
