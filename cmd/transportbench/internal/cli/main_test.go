package cli_test

import (
	"os"
	"strings"
	"testing"

	"transportbench/cmd/transportbench/internal/clitest"
)

// TestMain makes this binary also the plugin liar, whose ranks lie, hostile plugins, and a command
// whose memory is measured.
func TestMain(m *testing.M) {
	clitest.Main(m, func(plugin string) {
		if path := os.Getenv(memoryFile); path != "" {
			os.Exit(measureMemory(path))
		}
		if strings.HasPrefix(plugin, "liar") {
			serveLiar(plugin)
		}
		if strings.HasPrefix(plugin, hostile) {
			actHostile(plugin)
		}
	})
}
