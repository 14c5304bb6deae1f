package ofi

import (
	"os"
	"testing"
)

// TestVerbsConformance runs the suite over the RDMA device of RDMA_TEST_DEVICE, and in short mode, for an
// emulated guest, a part of it. probe/alone fails in the guest: the 64 reads of a queue between two sleeps of
// a probe take more than 2 ms there.
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
