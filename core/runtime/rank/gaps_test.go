package rank

import (
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// stalling is a worker that stalls in its next poll.
type stalling struct {
	transport.Worker
	next func()
}

func (w *stalling) Poll(events []transport.Event) (int, error) {
	if w.next != nil {
		w.next()
		w.next = nil
	}
	return w.Worker.Poll(events)
}

// TestGaps stalls a client and a daemon, both busy and idle, and looks for the stalls in their
// reports, with their times and causes.
func TestGaps(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const length = 3 * time.Millisecond
	mapped := unmapped(t)
	causes := map[string]struct {
		stall func()
		count func(g *record.Gap) uint64
	}{
		"page fault": {func() {
			for i := 0; i < len(mapped); i += 4096 {
				mapped[i] = 1
			}
			spinFor(length)
		}, func(g *record.Gap) uint64 { return g.MinorFaults }},
		"collector": {func() { runtime.GC(); spinFor(length) },
			func(g *record.Gap) uint64 { return g.Collections }},
		"sleep": {func() { time.Sleep(length) }, func(g *record.Gap) uint64 { return g.ForNS }},
	}
	for name, cause := range causes {
		for _, busy := range []bool{false, true} {
			var workers []*stalling // of the ranks, in their order
			driver := wrapped{memory.NewDriver(), func(w transport.Worker) transport.Worker {
				workers = append(workers, &stalling{Worker: w})
				return workers[len(workers)-1]
			}}
			ranks := cluster(t, driver, testConfig(), config.IdleSpin)
			require.Len(t, workers, 2)
			daemon, client := ranks[0].threads[0].daemon, ranks[1].threads[0].client
			client.Begin(hour(8))
			if busy {
				require.NoError(t, client.Load(machine.Calibrated().Now()))
			}
			loop := func(steps int) {
				for range steps {
					_, err := iterate(client)
					require.NoError(t, errors.Join(err, daemon.Step()))
				}
			}
			loop(1000)
			for i, stalls := range []string{"daemon", "client"} {
				gaps := &client.Gaps
				if stalls == "daemon" {
					gaps = &daemon.Gaps
				}
				// Only the longest gaps are kept, and a busy machine adds its own: try again then.
				found := false
				var r record.ThreadReport
				var from, to uint64
				for tries := 5; tries > 0 && !found; tries-- {
					gaps.Begin()
					loop(1000)
					workers[i].next = cause.stall
					from = machine.Monotonic()
					loop(1)
					to = machine.Monotonic()
					loop(1000)
					gaps.Stop()
					gaps.Report(&r)
					found = slices.ContainsFunc(r.Gaps, func(g record.Gap) bool {
						slack := g.ForNS / 100 // the lengths are by another clock
						return g.ForNS >= uint64(length)*99/100 && g.AtNS+g.ForNS+slack > from &&
							g.AtNS < to+slack && cause.count(&g) > 0
					})
					if name == "page fault" {
						require.NoError(t, unix.Madvise(mapped, unix.MADV_DONTNEED))
					}
				}
				require.True(t, found, "%s, %s, busy %t: %+v from %d to %d", name, stalls, busy,
					r.Gaps, from, to)
				require.GreaterOrEqual(t, r.GapNS+1, r.Gaps[0].ForNS, "rounded down")
				require.Positive(t, r.GapCount)
				require.NotZero(t, r.GapLimitNS)
			}
			require.NoError(t, drain(ranks[1].clients(), daemon))
		}
	}
}

// unmapped returns memory without pages.
func unmapped(t *testing.T) []byte {
	memory, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	return memory
}

func spinFor(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}
