package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/experiment/network"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
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
			got := networked(t, "loss=5%,delay=20us", "--transport", name, "--in-flight", "16",
				"--value-size", "4KiB", "--duration", "1s")
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
	i := command(t, "run", "--transport", "shm", "--network", "loss=1%", "--repeats", "1",
		"--duration", "10ms")
	require.NoError(t, i.cmd.Start())
	require.NotZero(t, i.wait(t))
	require.Contains(t, i.stderr.String(), "shm was opened on memory (provider")
}

// TestNetworkKilled: after a command that is killed nothing is left in the namespaces of its ranks.
func TestNetworkKilled(t *testing.T) {
	needNetwork(t)
	own, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	for moment, ranks := range map[string]int{"process start": 3, "repeat 1 of": 2} {
		i := begin(t, moment, "--transport", "sockets", "--network", "loss=1%", "--ranks",
			strconv.Itoa(ranks), "--duration", "30s")
		spaces := map[string]bool{}
		require.Eventually(t, func() bool {
			for _, pid := range plugins() {
				space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
				if err == nil && space != own {
					spaces[space] = true
				}
			}
			return len(spaces) == ranks
		}, 30*time.Second, time.Millisecond, "each rank is in a namespace of its own")
		require.NoError(t, i.cmd.Process.Kill())
		i.wait(t)
		links, err := filepath.Glob("/proc/[0-9]*/ns/net")
		require.NoError(t, err)
		for _, link := range links {
			space, _ := os.Readlink(link)
			require.False(t, spaces[space], "%s is in a namespace of the run", link)
		}
	}
	left, err := net.Interfaces()
	require.NoError(t, err)
	require.Equal(t, interfaces, left)
}

// networked makes a run with a network and returns its result.
func networked(t *testing.T, impairments string, more ...string) *result.Result {
	t.Helper()
	i := command(t, append([]string{"run", "--json", "--network", impairments, "--warmup", "50ms",
		"--repeats", "1"}, more...)...)
	require.NoError(t, i.cmd.Start())
	i.wait(t) // checks of the rate may fail
	r, err := result.Parse(i.stdout.Bytes())
	require.NoError(t, err, i.stderr.String())
	require.False(t, r.Incomplete, r.IncompleteReason)
	requireVerified(t, r)
	return r
}

// TestNetworkMeasured: what a run measures is the network that was asked for. It runs in the guest,
// too, whose kernel has netem.
func TestNetworkMeasured(t *testing.T) {
	needNetwork(t)
	mechanism, err := network.Find()
	require.NoError(t, err)
	t.Run("loss", func(t *testing.T) {
		r := networked(t, "loss=1%", "--transport", "erpc", "--profile", "echo", "--in-flight",
			"64", "--duration", "1s")
		seen, ok := r.Network()
		require.True(t, ok)
		require.Greater(t, seen.Packets, uint64(500))
		loss := float64(seen.Dropped) / float64(seen.Packets)
		t.Logf("%s dropped %.2f%% of %d packets", mechanism, 100*loss, seen.Packets)
		require.InDelta(t, 0.01, loss, 5*math.Sqrt(0.01*0.99/float64(seen.Packets)),
			"five standard deviations")
		require.Positive(t, stat(r, "retransmitted"))
		require.Equal(t, mechanism, r.ImpairedBy)
		require.Contains(t, result.Path(r), "impaired by "+string(mechanism))
	})
	t.Run("delay", func(t *testing.T) {
		r := networked(t, "delay=1ms", "--transport", "sockets", "--profile", "echo", "--in-flight",
			"1", "--idle", "park", "--duration", "500ms")
		p50 := time.Duration(r.Summary[result.LatencyP50].Median)
		t.Logf("a call through %s takes %v", mechanism, p50)
		require.GreaterOrEqual(t, p50, 2*time.Millisecond-10*time.Microsecond,
			"there and back; buckets of latencies are 0.1% wide")
	})
	t.Run("rate", func(t *testing.T) {
		const size, inFlight, second = 64 << 10, 4, 12.5e6 // bytes
		r := networked(t, "rate=100Mbit", "--transport", "sockets", "--profile", "bulk",
			"--value-size", strconv.Itoa(size),
			"--in-flight", strconv.Itoa(inFlight), "--duration", "1s")
		goodput := r.Summary[result.Goodput].Median
		t.Logf("%s passes %.1f Mbit/s", mechanism, 8*goodput/1e6)
		require.LessOrEqual(t, goodput, second+inFlight*size)
		require.Greater(t, goodput, second/4)
		if mechanism != result.Relay {
			return
		}
		fast := networked(t, "loss=0%", "--transport", "sockets", "--profile", "bulk",
			"--duration", "300ms")
		require.Greater(t, fast.Summary[result.Goodput].Median, 2*second)
		require.Greater(t, busy(t, fast), 2*busy(t, r),
			"of the check that a relay without a rate fails")
	})
}

// busy returns the value of the check of the relay.
func busy(t *testing.T, r *result.Result) float64 {
	at := slices.IndexFunc(r.Checks, func(c result.Finding) bool { return c.Name == "relay" })
	require.GreaterOrEqual(t, at, 0)
	return r.Checks[at].Value
}

// TestNetworkAB compares two networks.
func TestNetworkAB(t *testing.T) {
	needNetwork(t)
	i := command(t, "ab", "--transport", "sockets", "--a", "network=loss=0%", "--b",
		"network=loss=1%,delay=2ms",
		"--profile", "echo", "--in-flight", "1", "--duration", "100ms", "--warmup", "20ms",
		"--repeats", "2", "--max-repeats", "2", "--format", "json")
	i.cmd.Args = append(i.cmd.Args, "--out", i.out)
	require.Contains(t, []int{0, 3, 6}, i.run(t), i.stderr.String())
	var report compare.Report
	require.NoError(t, json.Unmarshal(i.stdout.Bytes(), &report))
	at := slices.IndexFunc(report.Changes,
		func(c compare.Change) bool { return c.Metric == result.LatencyP50 })
	require.GreaterOrEqual(t, at, 0)
	require.Contains(t, report.Changes[at].Cell,
		"network=loss=0% -> sockets network=loss=1%,delay=2ms")
	require.GreaterOrEqual(t, report.Changes[at].New.Median, 3.99e6)
	require.Less(t, report.Changes[at].Old.Median, report.Changes[at].New.Median)
}

// TestNetworkSweep: a network is an axis of a sweep, for UCX over TCP, too.
func TestNetworkSweep(t *testing.T) {
	needNetwork(t)
	for _, name := range []string{"sockets", "ucxam"} {
		t.Run(name, func(t *testing.T) {
			if name == "ucxam" {
				if err := buildUCXAM(t); err != nil {
					t.Skip(err)
				}
			}
			i := command(t, "sweep", "--transport", name, "--network", "none;delay=1ms",
				"--profile", "echo", "--in-flight", "1",
				// an option of the transport's own with the same name
				"--set", map[string]string{"sockets": "network=tcp", "ucxam": "tls=tcp"}[name],
				"--duration", "200ms", "--warmup", "20ms", "--repeats", "1")
			i.cmd.Args = append(i.cmd.Args, "--out", i.out)
			require.Contains(t, []int{0, 4}, i.run(t), i.stderr.String())
			s, err := set.Load(i.out)
			require.NoError(t, err)
			require.Len(t, s.Cells, 2)
			for _, c := range s.Cells {
				require.Equal(t, name == "ucxam", len(c.Samples[result.Library]) > 0,
					"its probe ends, whatever the delay")
				impaired := c.Config["network"] != ""
				require.Equal(t, impaired, c.Samples[result.LatencyP50][0] >= 1.99e6, "%v",
					c.Config)
				require.Equal(t, impaired,
					slices.ContainsFunc(c.Plugin.Path,
						func(p string) bool { return strings.HasPrefix(p, "impaired by ") }))
			}
		})
	}
}

// TestNetworkWithoutRights: a user who may not make namespaces reads in one line what is missing,
// and erpc imitates what it can.
func TestNetworkWithoutRights(t *testing.T) {
	needNetwork(t)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("it needs setpriv (util-linux), which takes privileges away")
	}
	run := func(name, impairments string, more ...string) *invocation {
		i := command(t, append([]string{"run", "--transport", name, "--network", impairments,
			"--repeats", "1", "--duration", window}, more...)...)
		i.cmd.Args = append([]string{setpriv, "--bounding-set=-net_admin,-sys_admin",
			"--inh-caps=-net_admin,-sys_admin", i.cmd.Path}, i.cmd.Args[1:]...)
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
