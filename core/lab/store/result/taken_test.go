package result

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
)

// The share of a window that others took does not depend on a metric, and what the ranks did
// themselves does not count.
func TestTaken(t *testing.T) {
	type window struct {
		*Result
		repeat         *Repeat
		client, daemon *record.ThreadReport
	}
	newWindow := func() window {
		const length = 150e6
		thread := record.ThreadReport{CPUNS: length}
		r := &Result{
			Placement: []Placement{{Rank: 0, CPUs: []int{0}, Idle: config.IdleSpin},
				{Rank: 1, CPUs: []int{1}, Idle: config.IdleSpin}},
			Repeats: []Repeat{{
				Samples: map[string]float64{Throughput: 26e6},
				Ranks: []record.Report{
					{Daemons: []record.DaemonReport{{Thread: thread, ElapsedNS: length}},
						Process: record.ProcessReport{CPUNS: length}},
					{Clients: []record.ClientReport{{Thread: thread, ElapsedNS: length}},
						Process: record.ProcessReport{CPUNS: length}},
				},
			}},
		}
		ranks := r.Repeats[0].Ranks
		return window{r, &r.Repeats[0], &ranks[1].Clients[0].Thread, &ranks[0].Daemons[0].Thread}
	}
	// preempt lets something else run for 120 of 150 ms.
	preempt := func(w window) {
		w.client.CPUNS, w.client.Involuntary = 30e6, 9
		w.repeat.Ranks[1].Process.CPUNS = 30e6
	}
	for name, c := range map[string]struct {
		edit func(window)
		want float64
	}{
		"quiet":           {func(window) {}, 0},
		"slow":            {func(w window) { w.repeat.Samples[Throughput] = 1e6 }, 0},
		"another program": {preempt, 0.8},
		"of several launches": {func(w window) {
			preempt(w)
			w.Launches = []Launch{{Placement: w.Placement}}
		}, 0.8},
		"of no launch": {func(w window) { preempt(w); w.repeat.Launch = -1 }, 0.8},
		"the thread that lost most": {func(w window) {
			preempt(w)
			w.daemon.CPUNS = 100e6
			w.repeat.Ranks[0].Process.CPUNS = 100e6
		}, 0.8},
		"a helper of the transport": {func(w window) {
			preempt(w)
			w.repeat.Ranks[1].Process.CPUNS = 150e6
		}, 0},
		"a helper and another program": {func(w window) {
			preempt(w)
			w.repeat.Ranks[0].Process.CPUNS += 30e6
		}, 0.6},
		"soft interrupts": {func(w window) {
			preempt(w)
			w.repeat.Machine.SoftIRQNS = 60e6
		}, 0.4},
		"waits":   {func(w window) { preempt(w); w.client.Voluntary = 10 }, 0},
		"unknown": {func(w window) { preempt(w); w.client.CPUNS = 0 }, 0},
		"parks":   {func(w window) { preempt(w); w.Placement[1].Idle = config.IdlePark }, 0},
		"shares a processor": {func(w window) {
			preempt(w)
			w.Placement[1].CPUs[0] = 0
		}, 0},
		"same number on another host": {func(w window) {
			preempt(w)
			w.Placement[1].CPUs[0], w.Placement[1].Host = 0, "b"
		}, 0.8},
		"unpinned":           {func(w window) { preempt(w); w.Placement[0].CPUs[0] = -1 }, 0},
		"shares a thread":    {func(w window) { preempt(w); w.client.Sharing = 2 }, 0},
		"without placements": {func(w window) { preempt(w); w.Placement = nil }, 0},
		"steal": {func(w window) {
			w.repeat.Machine.StealNS, w.repeat.Samples[Steal] = 90e6, 0.3
		}, 0.3},
		"steal of parked threads": {func(w window) {
			w.Placement[0].Idle = config.IdlePark
			w.repeat.Machine.StealNS, w.repeat.Samples[Steal] = 90e6, 0.3
		}, 0.3},
		"two ticks of steal": {func(w window) {
			w.repeat.Machine.StealNS, w.repeat.Samples[Steal] = 20e6, 0.3
		}, 0},
	} {
		w := newWindow()
		c.edit(w)
		require.InDelta(t, c.want, w.Taken(0), 1e-9, name)
	}
}
