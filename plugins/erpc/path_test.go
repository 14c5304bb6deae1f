package erpc

import (
	"testing"

	"transportbench/core/fabric/fabrictest"
)

// TestPathHasPorts: two workers state the same ports.
func TestPathHasPorts(t *testing.T) {
	fabrictest.Ports(t, Driver{}, map[string]string{"provider": "udp"})
}
