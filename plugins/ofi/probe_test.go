package ofi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/amlib/amlibtest"
	"transportbench/core/fabric/fabrictest"
)

// TestLibraryProbe: the library's ping-pong carries the payloads, plain and tagged.
func TestLibraryProbe(t *testing.T) {
	needLibrary(t)
	for _, provider := range []string{"shm", "tcp"} {
		t.Run(provider, func(t *testing.T) {
			a, b := fabrictest.Pair(t, Driver{}, fabrictest.Rank{
				Options: map[string]string{optionProvider: provider}, MaxPayload: 64 << 10})
			facts := a.(*worker).ReadPaths(nil)[0].Facts
			require.Equal(t, "FI_EP_RDM", facts["endpoint"])
			require.Contains(t, facts["provider"], provider)
			amlibtest.Probe(t, a, b, 0, 16, 8<<10, 64<<10)
		})
	}
}
