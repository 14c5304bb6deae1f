//go:build ibverbs

package erpc

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// make test-rdma sets the device to test and a second device that the first reaches over a wire.
// Without a device to test, tests that find none are skipped.
const (
	deviceVariable = "RDMA_TEST_DEVICE"
	peerVariable   = "RDMA_TEST_PEER"
)

// verbs returns the options of the device under test, followed by more.
func verbs(t *testing.T, more ...string) map[string]string {
	name := os.Getenv(deviceVariable)
	d, err := devices.Open(rdma.Options{Provider: rdma.Verbs, Device: name, GIDIndex: rdma.AnyGID})
	if name == "" && errors.Is(err, rdma.ErrUnavailable) {
		t.Skipf("%v; make test-rdma runs it on Soft-RoCE", err)
	}
	require.NoError(t, err)
	require.NoError(t, d.Close())
	o := map[string]string{"provider": providerVerbs, "device": name}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

// TestVerbsConformance runs the suite with a peer timeout that a preempted emulated guest does not
// reach, and an MTU that makes its larger messages take several packets.
func TestVerbsConformance(t *testing.T) {
	o := verbs(t, "keepalive", "50ms", "peer-timeout", "8s", "mtu", "1024")
	transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Options: o, Kill: closeWithoutByes,
		MaxPayload: 8 << 10, Timeout: 2 * time.Minute})
}

// TestVerbsKilledAndRestarted uses the second device, if there is one.
func TestVerbsKilledAndRestarted(t *testing.T) {
	theirs := verbs(t, "peer-timeout", "1h")
	if peer := os.Getenv(peerVariable); peer != "" {
		theirs["device"] = peer
	}
	w := opened(t, 1, transport.Config{Peers: 2, InFlight: 8, MaxPayload: 1000},
		verbs(t, "keepalive", "50ms", "peer-timeout", "8s"))[0]
	for id := range transport.PeerID(2) {
		s := fabrictest.StartEcho(t, fabrictest.Rank{Options: theirs, MaxPayload: 1000})
		s.Connect(w, id)
		echo(t, w, id, 300)
		s.Kill()
		awaitLoss(t, w, id)
		_, err := w.Post([]transport.Op{{Kind: transport.OpCall, Peer: id}})
		require.ErrorIs(t, err, transport.ErrPeerDown)
	}
}
