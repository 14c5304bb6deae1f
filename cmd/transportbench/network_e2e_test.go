package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/network"
	"transportbench/core/lab/result"
	"transportbench/core/transport"
)

// needNetwork skips a test of --network if this user may not make namespaces and interfaces.
func needNetwork(t *testing.T) {
	t.Helper()
	switch _, err := network.Find(); {
	case err == nil:
	case os.Getenv("CI_REQUIRE_NAMESPACES") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// TestNetworkLoss: packets that the network drops are sent again, and every operation is verified.
func TestNetworkLoss(t *testing.T) {
	needNetwork(t)
	for name, counter := range map[string]string{"tcpx": "retransmits", "erpc": "retransmitted"} {
		t.Run(name, func(t *testing.T) {
			i := command(t, "run", "--json", "--transport", name, "--network", "loss=5%,delay=20us", "--in-flight", "16",
				"--value-size", "4KiB", "--warmup", "20ms", "--duration", "1s", "--repeats", "1")
			require.NoError(t, i.cmd.Start())
			i.wait(t) // checks of the rate may fail
			got, err := result.Parse(i.stdout.Bytes())
			require.NoError(t, err, i.stderr.String())
			require.False(t, got.Incomplete, got.IncompleteReason)
			requireVerified(t, got)
			require.EqualValues(t, "loss=5%,delay=20us", got.Config.Network)
			seen, ok := got.Network()
			require.True(t, ok)
			require.Positive(t, seen.Dropped)
			require.Positive(t, seen.Delivered)
			require.Less(t, seen.Dropped, seen.Packets/4)
			mechanism, err := network.Find()
			require.NoError(t, err)
			require.Equal(t, mechanism, got.ImpairedBy)
			if mechanism == result.Relay {
				require.GreaterOrEqual(t, seen.DelayNS, seen.Delivered*uint64(20*time.Microsecond))
				require.Positive(t, seen.BusyNS)
			}
			require.Positive(t, stat(got, counter), "%d packets were dropped", seen.Dropped)
		})
	}
}

// stat returns the sum of a counter of the transport over all windows and threads.
func stat(r *result.Result, name string) (sum uint64) {
	add := func(stats []transport.Stat) {
		for _, s := range stats {
			if s.Name == name {
				sum += s.Value
			}
		}
	}
	for i := range r.Repeats {
		for _, c := range r.Repeats[i].Clients() {
			add(c.Transport)
		}
		for _, d := range r.Repeats[i].Daemons() {
			add(d.Transport)
		}
	}
	return sum
}

// TestNetworkRefused: a transport whose messages do not pass the network is refused in one line.
func TestNetworkRefused(t *testing.T) {
	needNetwork(t)
	i := command(t, "run", "--transport", "shm", "--network", "loss=1%", "--repeats", "1", "--duration", "10ms")
	require.NoError(t, i.cmd.Start())
	require.NotZero(t, i.wait(t))
	require.Contains(t, i.stderr.String(), "shm was opened on memory (provider")
}

// TestNetworkKilled: after a command that is killed nothing is left in the namespaces of its ranks.
func TestNetworkKilled(t *testing.T) {
	needNetwork(t)
	for _, moment := range []string{"launch", "repeat 1 of"} {
		i := begin(t, moment, "--transport", "sockets", "--network", "loss=1%", "--duration", "30s")
		own, err := os.Readlink("/proc/self/ns/net")
		require.NoError(t, err)
		spaces := map[string]bool{}
		require.Eventually(t, func() bool {
			for _, pid := range plugins() {
				space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
				if err == nil && space != own {
					spaces[space] = true
				}
			}
			return len(spaces) == 2
		}, 10*time.Second, time.Millisecond, "each rank is in a namespace of its own")
		require.NoError(t, i.cmd.Process.Kill())
		i.wait(t)
		links, err := filepath.Glob("/proc/[0-9]*/ns/net")
		require.NoError(t, err)
		for _, link := range links {
			space, _ := os.Readlink(link)
			require.False(t, spaces[space], "%s is in a namespace of the run", link)
		}
	}
}

// TestNetworkWithoutRights: a user who may not make namespaces reads in one line what is missing, and
// erpc imitates what it can.
func TestNetworkWithoutRights(t *testing.T) {
	needNetwork(t)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("it needs setpriv (util-linux), which takes privileges away")
	}
	run := func(name, impairments string, more ...string) *invocation {
		i := command(t, append([]string{"run", "--transport", name, "--network", impairments, "--repeats", "1", "--duration", window}, more...)...)
		i.cmd.Args = append([]string{setpriv, "--bounding-set=-net_admin,-sys_admin", "--inh-caps=-net_admin,-sys_admin", i.cmd.Path}, i.cmd.Args[1:]...)
		i.cmd.Path = setpriv
		i.run(t)
		return i
	}
	i := run("sockets", "loss=1%")
	require.Equal(t, 1, i.cmd.ProcessState.ExitCode(), i.stderr.String())
	require.Contains(t, i.stderr.String(), "run as root or with CAP_NET_ADMIN and CAP_SYS_ADMIN")
	require.Equal(t, 1, strings.Count(i.stderr.String(), "transportbench: "), i.stderr.String())

	i = run("erpc", "loss=1%,jitter=1ms,delay=1ms")
	require.Equal(t, 2, i.cmd.ProcessState.ExitCode(), i.stderr.String())
	require.Contains(t, i.stderr.String(), "no jitter")

	i = run("erpc", "loss=19%,delay=100us", "--json")
	got, err := result.Parse(i.stdout.Bytes())
	require.NoError(t, err, i.stderr.String())
	requireVerified(t, got)
	require.Contains(t, i.stderr.String(), "erpc drops, delays and reorders its datagrams itself")
	require.Equal(t, "100000", got.Config.Options["fault-drop"], "1 - (1 - 0.1)^2 = 0.19")
	require.Equal(t, "50us", strings.ReplaceAll(got.Config.Options["fault-delay-by"], "µ", "u"))
	require.Equal(t, result.Imitated, got.ImpairedBy)
	require.Positive(t, stat(got, "retransmitted"))
	require.GreaterOrEqual(t, got.Summary[result.LatencyP50].Median, 200e3, "there and back")
}
