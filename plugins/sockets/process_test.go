package sockets

import (
	"fmt"
	"os"
	"testing"

	"transportbench/core/fabric/fabrictest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{
		fabrictest.EchoRole: fabrictest.Echo(Driver{})}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// TestKilledProcess kills a peer in the middle of large messages: Poll reports the loss, the socket
// is closed, and nothing of the dead process is left.
func TestKilledProcess(t *testing.T) { withEngines(t, testKilledProcess) }

func testKilledProcess(t *testing.T, engine string) {
	for _, network := range bothNetworks {
		t.Run(network, func(t *testing.T) {
			before := descriptors(t)
			tr, w, pid := fabrictest.Kill(t, Driver{},
				map[string]string{"network": network, "engine": engine}, 4<<20)
			require.Error(t, w.(*worker).Silence(0))
			require.NoError(t, tr.Close())
			require.Equal(t, before, descriptors(t))
			names, err := os.ReadFile("/proc/net/unix")
			require.NoError(t, err)
			require.NotContains(t, string(names), fmt.Sprintf("%s%d-", unixPrefix, pid))
		})
	}
}
