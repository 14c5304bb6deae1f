package ofi

import (
	"testing"

	"transportbench/core/fabric/fabrictest"
)

// TestPathHasPorts: two workers over UDP state the same ports.
func TestPathHasPorts(t *testing.T) {
	needLibrary(t)
	fabrictest.Ports(t, Driver{}, map[string]string{optionProvider: "udp"})
}
