package tcpx

import (
	"os"
	"testing"
)

// volumeVariable has TestThousandTransfers run, which takes minutes.
const volumeVariable = "TRANSPORTBENCH_VOLUME"

// TestThousandTransfers sends a thousand transfers of 0 to 64 MiB, 32 GB in all, and
// compares every byte.
func TestThousandTransfers(t *testing.T) {
	if os.Getenv(volumeVariable) == "" {
		t.Skip("1000 transfers of up to 64 MiB; run with " + volumeVariable + "=1")
	}
	transfers(t, 1000, 64<<20)
}
