package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/result"
	"transportbench/core/lab/state"
)

// soakWindows is how many windows a soak has.
const soakWindows = 40

// TestSoak runs windows of each transport in one launch for SOAK_TEST_TIME, such as 1h, and checks that
// memory, descriptors and latency stay flat.
func TestSoak(t *testing.T) {
	if os.Getenv("SOAK_TEST_TIME") == "" {
		t.Skip("set SOAK_TEST_TIME to a duration for each transport")
	}
	total, err := time.ParseDuration(os.Getenv("SOAK_TEST_TIME"))
	require.NoError(t, err)
	window := max(total/soakWindows, 100*time.Millisecond)
	for _, transport := range []string{"shm", "copyrpc", "ucxam", "erpc", "tcpx"} {
		t.Run(transport, func(t *testing.T) {
			if transport == "ucxam" { // the only one that needs its library
				if err := buildUCXAM(t); err != nil {
					t.Skip(err)
				}
			}
			i := command(t, "run", "--transport", transport, "--in-flight", "8", "--launches", "1",
				"--repeats", fmt.Sprint(soakWindows), "--duration", window.String())
			require.NoError(t, i.cmd.Start())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = i.cmd.Wait() // its exit code is checked below
			}()
			seen := map[int][]footprint{} // by process, the command's included
			for watching := true; watching; {
				select {
				case <-ended:
					watching = false
				case <-time.After(total / 200):
					for _, pid := range append(plugins(), i.cmd.Process.Pid) {
						if held, err := footprintOf(pid); err == nil {
							seen[pid] = append(seen[pid], held)
						}
					}
				}
			}
			// With 4 a check failed, as that of quiet windows on a busy machine.
			require.Contains(t, []int{0, 4}, i.cmd.ProcessState.ExitCode(), i.stderr.String())
			require.Empty(t, plugins())
			all := i.results(t)
			require.Len(t, all, 1, i.stderr.String())
			require.Len(t, all[0].Repeats, soakWindows)
			requireVerified(t, all[0])
			ranks := 0
			for pid, list := range seen {
				if len(list) < 40 {
					continue // asked for its description only
				}
				ranks++
				// The first windows touch memory for the first time; the end closes.
				list = list[len(list)/5 : len(list)*19/20]
				first, last := quarters(list)
				memory := func(f footprint) int { return f.memory }
				descriptors := func(f footprint) int { return f.descriptors }
				was, is := least(first, memory), least(last, memory)
				t.Logf("process %d: %d to %d KiB, %d to %d descriptors", pid, was, is, least(first, descriptors), least(last, descriptors))
				require.Less(t, is, was+was/10+8<<10, "KiB of memory of process %d", pid)
				require.LessOrEqual(t, least(last, descriptors), least(first, descriptors)+1, "descriptors of process %d", pid)
			}
			require.Equal(t, 3, ranks, "the command and two ranks")
			requireFlatLatency(t, all[0].Repeats)
		})
	}
}

// requireFlatLatency compares the last quarter of windows with the first, in each state of the machine
// that both have windows of: on a virtual machine processors may be near each other in some windows and
// far in others. The least of a state counts, because other programs slow the rest. Without a state in
// common the bound is wide enough for any two states.
func requireFlatLatency(t *testing.T, windows []result.Repeat) {
	t.Helper()
	var bounces []float64
	for _, w := range windows {
		bounces = append(bounces, w.Before.Bounce, w.After.Bounce)
	}
	states := state.Find(bounces)
	leastOf := func(windows []result.Repeat) map[string]float64 {
		p50 := map[string]float64{}
		for _, w := range windows {
			name, now := states.Of(w.Before.Bounce, w.After.Bounce), w.Samples["latency_p50"]
			if was, has := p50[name]; !has || now < was {
				p50[name] = now
			}
		}
		return p50
	}
	first, last := quarters(windows)
	was, is := leastOf(first), leastOf(last)
	t.Logf("p50 in ns by state: %v to %v", was, is)
	compared := false
	for name := range was {
		if _, both := is[name]; both && name != state.Mixed {
			require.Less(t, is[name], 1.5*was[name], "p50 in ns, state %q", name)
			compared = true
		}
	}
	if !compared {
		least := func(p50 map[string]float64) float64 { return slices.Min(slices.Collect(maps.Values(p50))) }
		require.Less(t, least(is), 3*least(was), "p50 in ns, no state in common")
	}
}

// quarters returns the first and the last quarter of a list.
func quarters[T any](list []T) (first, last []T) {
	return list[:len(list)/4], list[len(list)-len(list)/4:]
}

func least(list []footprint, of func(footprint) int) int {
	low := of(list[0])
	for _, u := range list {
		low = min(low, of(u))
	}
	return low
}
