package ofi

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// TestVerbsConformance runs the suite over the RDMA device of RDMA_TEST_DEVICE, and in short mode,
// for an emulated guest, a part of it. probe/alone fails in the guest: the 64 reads of a queue
// between two sleeps of a probe take more than 2 ms there.
func TestVerbsConformance(t *testing.T) {
	device := os.Getenv("RDMA_TEST_DEVICE")
	if device == "" {
		t.Skip("RDMA_TEST_DEVICE names no device: scripts/test-rdma.sh does")
	}
	options := map[string]string{optionProvider: "verbs", optionDomain: device}
	if testing.Short() {
		runClauses(t, options, append(shortClauses, "probe/reading"))
	} else {
		conform(t, options)
	}
}

// TestRegistered: only providers whose devices reach registered memory alone register any.
func TestRegistered(t *testing.T) {
	needLibrary(t)
	cases := map[string]map[string]string{"shm": {optionProvider: "shm"},
		"tcp": {optionProvider: "tcp"}}
	if device := os.Getenv("RDMA_TEST_DEVICE"); device != "" {
		cases["verbs"] = map[string]string{optionProvider: "verbs", optionDomain: device}
	}
	for provider, options := range cases {
		t.Run(provider, func(t *testing.T) {
			tr, _, err := open(fabrictest.Rank{Options: options, MaxPayload: 64 << 10,
				InFlight: 16})
			require.NoError(t, err)
			defer func() { require.NoError(t, tr.Close()) }()
			stats := tr.(transport.StatsReader).ReadStats(nil)
			bytes := transport.StatValue(stats, transport.StatRegisteredBytes)
			took := transport.StatValue(stats, transport.StatRegisterTime)
			if provider != "verbs" {
				require.Zero(t, bytes)
				require.Zero(t, took)
				return
			}
			require.GreaterOrEqual(t, bytes, uint64(16*(64<<10)), "room for the calls in flight")
			require.Positive(t, took)
		})
	}
}
