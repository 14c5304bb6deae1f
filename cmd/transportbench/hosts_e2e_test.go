package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest/hosts"
	"transportbench/core/lab/store/result"
)

// TestBetweenHosts runs ranks in two network namespaces, joined by a wire of limited
// rate; in short mode, one load over each transport.
func TestBetweenHosts(t *testing.T) {
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip("nsenter (util-linux) is needed to put ranks into namespaces")
	}
	for name, args := range map[string][]string{
		"erpc-small": {"--set", "provider=udp", "--in-flight", "16"},
		"erpc-large": {"--set", "provider=udp", "--value-size", "256KiB", "--keys", "16",
			"--in-flight", "4"},
		"erpc-mesh": {"--set", "provider=udp", "--topology", "mesh-proxied",
			"--in-flight", "4"},
		"erpc-congestion": {"--set", "provider=udp", "--value-size", "64KiB", "--keys", "64",
			"--in-flight", "32", "--set", "congestion=none"},
		"tcpx-small": {"--in-flight", "4"},
		"tcpx-large": {"--value-size", "1MiB", "--keys", "16", "--in-flight", "2"},
	} {
		if testing.Short() && name != "erpc-large" && name != "tcpx-small" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			transport, _, _ := strings.Cut(name, "-")
			a, b := hosts.Pair(t, hosts.Wire{Rate: 60 << 20})
			// Windows are long because timeouts on a busy machine can make an
			// operation take half a second.
			args := append([]string{"run", "--json", "--transport", transport, "--plugin-dir",
				onHosts(t, "transport-"+transport, a, b),
				"--set", "address=10.77.0.0/24", "--ranks", "2",
				"--duration", "1500ms", "--warmup", "20ms", "--repeats", "1"}, args...)
			i := command(t, args...)
			i.run(t) // checks of the rate may fail
			r, err := result.Parse(i.stdout.Bytes())
			require.NoError(t, err, i.stderr.String())
			requireVerified(t, r)
			require.Positive(t, r.Summary[result.Throughput].Median)
			for _, h := range []*hosts.Host{a, b} {
				carried, err := h.Carried()
				require.NoError(t, err)
				require.Greater(t, carried, uint64(10_000), "bytes that came over the wire")
			}
		})
	}
}

// onHosts makes a directory with a plugin whose processes run on one host and the other in turn:
// the two ranks of each launch.
func onHosts(t *testing.T, plugin string, first, second *hosts.Host) string {
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
real=%[1]q
[ "$1" = serve ] || exec "$real" "$@"
host=%[2]q
mkdir %[4]q 2>/dev/null || { host=%[3]q; rmdir %[4]q; }
exec nsenter --net="$host" "$real" "$@"
`, filepath.Join(bin, "plugins", plugin), first.Path(), second.Path(), filepath.Join(dir, "first"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, plugin), []byte(script), 0o755))
	return dir
}
