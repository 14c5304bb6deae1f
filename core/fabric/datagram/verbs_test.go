//go:build ibverbs

package datagram_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
)

// verbsVariable names the device that make test-rdma tests. If it is set, a test that finds no
// device fails instead of being skipped.
const verbsVariable = "RDMA_TEST_DEVICE"

func TestVerbsConformance(t *testing.T) {
	device := rdma.Options{Provider: rdma.Verbs, Device: os.Getenv(verbsVariable),
		GIDIndex: rdma.AnyGID}
	d, err := devices.Open(device)
	if device.Device == "" && errors.Is(err, rdma.ErrUnavailable) {
		t.Skipf("%v; make test-rdma runs it on Soft-RoCE", err)
	}
	require.NoError(t, err)
	require.NoError(t, d.Close())
	for name, o := range map[string]datagram.VerbsOptions{
		"default": {},
		"small": {MTU: 256, Batch: 4, SendDepth: 8, ReceiveDepth: 16, SignalInterval: 4,
			Inline: -1},
	} {
		t.Run(name, func(t *testing.T) {
			runSuite(t, suite{Open: verbs(device, o),
				Timeout: 2 * time.Minute})
		})
	}
}
