package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest/hosts"
	"transportbench/core/lab/store/result"
)

// linkRun is a run between two hosts whose link a test cuts.
type linkRun struct {
	*invocation
	a, b     *hosts.Host
	progress watchedBuffer
}

func runOverLink(t *testing.T, transport string, args ...string) *linkRun {
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip("nsenter (util-linux) is needed to put ranks into namespaces")
	}
	a, b := hosts.Pair(t, hosts.Wire{})
	return overHosts(t, transport, a, b, args...)
}

// overHosts returns a run between two hosts.
func overHosts(t *testing.T, transport string, a, b *hosts.Host, args ...string) *linkRun {
	r := &linkRun{a: a, b: b}
	r.invocation = command(t, append([]string{"run", "--json", "--transport", transport,
		"--plugin-dir", onHosts(t, "transport-"+transport, a, b), "--set", "address=10.77.0.0/24",
		"--ranks", "2", "--warmup", "20ms"}, args...)...)
	r.cmd.Stderr = &r.progress
	if transport == "erpc" {
		r.cmd.Args = append(r.cmd.Args, "--set", "provider=udp")
	}
	return r
}

// keepCutting cuts the link until the test ends: next returns for how long it stays up first, then
// at the side of which host it goes down, and for how long. The other host has no carrier
// meanwhile.
func (r *linkRun) keepCutting(t *testing.T, next func() (up time.Duration, at *hosts.Host,
	down time.Duration)) {
	stop := make(chan struct{})
	var cutting sync.WaitGroup
	var err error
	cutting.Go(func() {
		for err == nil {
			up, at, down := next()
			select {
			case <-stop:
				return
			case <-time.After(up):
			}
			err = at.CutWire(down)
		}
	})
	t.Cleanup(func() {
		close(stop)
		cutting.Wait()
		require.NoError(t, err)
	})
}

// end waits for the run, and returns its exit code and its result.
func (r *linkRun) end(t *testing.T) (int, *result.Result) {
	t.Helper()
	code := r.wait(t)
	got, err := result.Parse(r.stdout.Bytes())
	require.NoError(t, err, r.progress.String())
	return code, got
}

// requireWhole requires that a run has all its repeats and that everything was verified.
func (r *linkRun) requireWhole(t *testing.T) *result.Result {
	t.Helper()
	_, got := r.end(t) // checks of the rate may fail
	require.False(t, got.Incomplete, "%s\n%s", got.IncompleteReason, r.progress.String())
	requireVerified(t, got)
	return got
}

// watchedBuffer is a buffer that tells when it has a text.
type watchedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *watchedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *watchedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func (b *watchedBuffer) await(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(b.String(), text) }, time.Minute,
		time.Millisecond, "waiting for %q", text)
}

// linkRuns returns the value of LINK_TEST_RUNS, which asks for all cases and for that many random
// ones.
func linkRuns() int {
	runs, _ := strconv.Atoi(os.Getenv("LINK_TEST_RUNS"))
	return runs
}

// TestLinkDown: a link that is down for 2 s costs a stall and no run, whenever that happens. In
// short mode it is down in a window of tcpx.
func TestLinkDown(t *testing.T) {
	for _, transport := range []string{"erpc", "tcpx", "sockets"} {
		for moment, c := range map[string]struct{ text, duration, repeats string }{
			"launch": {"process start", "200ms", "2"}, "window": {"repeat 1 of 1", "4s", "1"},
			"between": {"repeat 1 of 2 done", "200ms", "2"},
		} {
			name := transport + "/" + moment
			if name != "tcpx/window" && (testing.Short() || name != "erpc/launch" &&
				name != "tcpx/between" && linkRuns() == 0) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				r := runOverLink(t, transport, "--duration", c.duration, "--repeats", c.repeats,
					"--launches", "1")
				require.NoError(t, r.cmd.Start())
				r.progress.await(t, c.text)
				if moment == "window" {
					time.Sleep(time.Second) // for probes and the warm-up
				}
				require.NoError(t, r.b.CutWire(2*time.Second))
				got := r.requireWhole(t)
				if moment == "window" {
					requireStall(t, got, 400*time.Millisecond)
				}
			})
		}
	}
}

// requireStall requires that the first repeat lists a stall without traffic, in its window or in
// one that it replaces: on a busy machine a window with an outage may be a mixed or a starved one.
func requireStall(t *testing.T, r *result.Result, shortest time.Duration) {
	t.Helper()
	stalls := slices.Clone(r.Repeats[0].Stalls)
	for _, w := range r.Repeats[0].Remeasured {
		stalls = append(stalls, w.Stalls...)
	}
	require.True(t, slices.ContainsFunc(stalls, func(s result.Stall) bool {
		return s.Cause == result.CauseNoTraffic && time.Duration(s.ForNS) >= shortest
	}), "%+v", stalls)
}

// TestLinkFlaps: a link that goes down and comes back all the time, from the launch on, costs no
// run.
func TestLinkFlaps(t *testing.T) {
	for _, transport := range []string{"erpc", "tcpx"} {
		if transport != "erpc" && linkRuns() == 0 {
			continue
		}
		t.Run(transport, func(t *testing.T) {
			r := runOverLink(t, transport, "--duration", "500ms", "--repeats", "2")
			require.NoError(t, r.cmd.Start())
			up := time.Duration(0) // the launch finds the link down
			r.keepCutting(t, func() (time.Duration, *hosts.Host, time.Duration) {
				defer func() { up = 300 * time.Millisecond }()
				return up, r.a, 200 * time.Millisecond
			})
			r.requireWhole(t)
		})
	}
}

// TestLinkGone: after the transport's timeout the run ends with one line, and keeps its repeats.
func TestLinkGone(t *testing.T) {
	inLongTests(t)
	for transport, c := range map[string]struct{ options, says []string }{
		"erpc": {[]string{"--set", "peer-timeout=1s"},
			[]string{"peer is down: no answer from 10.77.0.", "(peer-timeout is 1s)"}},
		"tcpx": {[]string{"--set", "timeout=1s"},
			[]string{"peer is down: no packet from 10.77.0.", "(timeout is 1s)"}},
		"sockets": {[]string{"--set", "timeout=1s"},
			[]string{"peer is down: no packet from 10.77.0.", "(timeout is 1s)"}},
	} {
		t.Run(transport, func(t *testing.T) {
			r := runOverLink(t, transport, append([]string{"--duration", "1s", "--repeats", "3"},
				c.options...)...)
			require.NoError(t, r.cmd.Start())
			r.progress.await(t, "repeat 2 of 3")
			require.NoError(t, r.a.SetWire(false))
			code, got := r.end(t)
			require.Equal(t, 1, code)
			require.True(t, got.Incomplete)
			require.Len(t, got.Repeats, 1)
			for _, text := range c.says {
				require.Contains(t, got.Failure.Error, text)
			}
			require.NotContains(t, got.Failure.Error, "\n")
		})
	}
}

// TestLinkAtAnyMoment cuts the link at random moments and for random times below the timeouts, in
// LINK_TEST_RUNS runs. It prints the seed; LINK_TEST_SEED sets it.
func TestLinkAtAnyMoment(t *testing.T) {
	if linkRuns() == 0 {
		t.Skip("set LINK_TEST_RUNS to a number of runs")
	}
	seed, err := strconv.ParseUint(os.Getenv("LINK_TEST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("LINK_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range linkRuns() {
		transport := []string{"erpc", "tcpx", "sockets"}[random.IntN(3)]
		t.Run(fmt.Sprint(transport, n), func(t *testing.T) {
			r := runOverLink(t, transport, "--duration", "200ms", "--repeats", "8", "--launches",
				fmt.Sprint(1+random.IntN(8)))
			require.NoError(t, r.cmd.Start())
			r.keepCutting(t, func() (time.Duration, *hosts.Host, time.Duration) {
				up, down := time.Duration(random.Int64N(int64(2*time.Second))),
					time.Duration(random.Int64N(int64(4*time.Second)))
				t.Logf("up for %v, then down for %v", up, down)
				return up, []*hosts.Host{r.a, r.b}[random.IntN(2)], down
			})
			r.requireWhole(t)
		})
	}
}
