package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soakWindows is how many windows a soak has.
const soakWindows = 40

// usage is what a process holds.
type usage struct{ memory, descriptors int }

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
				build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", "ucx",
					"-o", filepath.Join(bin, "plugins")+"/", "transportbench/cmd/transport-ucxam")
				build.Env = append(os.Environ(), "CGO_ENABLED=1")
				if out, err := build.CombinedOutput(); err != nil {
					t.Skipf("the plugin does not build: %s", out)
				}
			}
			i := command(t, "run", "--transport", transport, "--in-flight", "8", "--launches", "1",
				"--repeats", fmt.Sprint(soakWindows), "--duration", window.String())
			require.NoError(t, i.cmd.Start())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = i.cmd.Process.Wait()
			}()
			seen := map[int][]usage{} // by process, the command's included
			for watching := true; watching; {
				select {
				case <-ended:
					watching = false
				case <-time.After(total / 200):
					for _, pid := range append(plugins(t), i.cmd.Process.Pid) {
						if u, ok := usageOf(pid); ok {
							seen[pid] = append(seen[pid], u)
						}
					}
				}
			}
			require.Empty(t, plugins(t))
			all := i.results(t)
			require.Len(t, all, 1, i.stderr.String())
			require.Len(t, all[0].Repeats, soakWindows)
			var latencies []float64
			for _, r := range all[0].Repeats {
				latencies = append(latencies, r.Samples["latency_p50"])
			}
			ranks := 0
			for pid, list := range seen {
				if len(list) < 40 {
					continue // asked for its description only
				}
				ranks++
				// The first windows touch memory for the first time; the end closes.
				list = list[len(list)/5 : len(list)*19/20]
				first, last := quarters(list)
				memory := func(u usage) int { return u.memory }
				descriptors := func(u usage) int { return u.descriptors }
				was, is := least(first, memory), least(last, memory)
				t.Logf("process %d: %d to %d KiB, %d to %d descriptors", pid, was, is, least(first, descriptors), least(last, descriptors))
				require.Less(t, is, was+was/10+8<<10, "KiB of memory of process %d", pid)
				require.LessOrEqual(t, least(last, descriptors), least(first, descriptors)+1, "descriptors of process %d", pid)
			}
			require.Equal(t, 3, ranks, "the command and two ranks")
			// The least of a quarter, because other programs slow the rest. The bound allows for processors
			// that are far from each other in one quarter and near in the other.
			first, last := quarters(latencies)
			t.Logf("p50 %.0f to %.0f ns", slices.Min(first), slices.Min(last))
			require.Less(t, slices.Min(last), 3*slices.Min(first)+2000, "p50 in ns")
		})
	}
}

// quarters returns the first and the last quarter of a list.
func quarters[T any](list []T) (first, last []T) {
	return list[:len(list)/4], list[len(list)-len(list)/4:]
}

func least(list []usage, of func(usage) int) int {
	low := of(list[0])
	for _, u := range list {
		low = min(low, of(u))
	}
	return low
}

// usageOf reads the resident memory in KiB and the number of descriptors of a process.
func usageOf(pid int) (u usage, ok bool) {
	dir := filepath.Join("/proc", fmt.Sprint(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return u, false
	}
	for line := range strings.Lines(string(status)) {
		if rest, has := strings.CutPrefix(line, "VmRSS:"); has {
			u.memory, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	u.descriptors = len(open)
	return u, err == nil && u.memory > 0
}
