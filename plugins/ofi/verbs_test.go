package ofi

import (
	"os"
	"testing"
)

// verbsClauses are those that short mode runs over an RDMA device: connections, all sizes of messages, back-pressure,
// and above all losses and closing.
var verbsClauses = []string{
	"connect/call-before-peer", "connect/late", "echo/sizes", "flow/back-pressure", "flow/credits", "poll/request-lifetime",
	"call/both-sides", "peers/lost-by-worker-close", "peers/lost-by-transport-close", "peers/lost-by-death", "peers/each-lost",
	"peers/lost-comes-last", "peers/lost-in-flight", "peers/post-to-lost", "peers/others-go-on", "close/in-flight", "close/one-worker",
	"close/descriptors", "probe/reading",
}

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
		runClauses(t, options, verbsClauses)
	} else {
		conform(t, options)
	}
}
