package sample

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

const windowStart = 5_000_000_000

// gapped returns the report of a rank whose daemon or client had gaps; their times are in
// microseconds since the start of the window.
func gapped(rank int, daemon bool, gaps ...record.Gap) record.Report {
	t := record.ThreadReport{StartNS: windowStart, MonotonicNS: 1e9}
	for _, g := range gaps {
		g.AtNS, g.ForNS = windowStart+1000*g.AtNS, 1000*g.ForNS
		t.Gaps = append(t.Gaps, g)
	}
	if daemon {
		return record.Report{Rank: rank, Daemons: []record.DaemonReport{{Thread: t}}}
	}
	return record.Report{Rank: rank, Clients: []record.ClientReport{{}, {Thread: t}}}
}

// silent adds a silence to the client of a report.
func silent(r record.Report, at, length uint64) record.Report {
	r.Clients[1].Silences = []record.Gap{{AtNS: windowStart + 1000*at, ForNS: 1000 * length}}
	return r
}

// lasting1s sets the window of the clients of a report.
func lasting1s(r record.Report) record.Report {
	for i := range r.Clients {
		r.Clients[i].ElapsedNS, r.Clients[i].Thread.StartNS = 1e9, windowStart
	}
	return r
}

func TestStallsOf(t *testing.T) {
	none := record.Gap{}
	gap := func(at, length uint64, counts record.Gap) record.Gap {
		counts.AtNS, counts.ForNS = at, length
		return counts
	}
	stall := func(at, length uint64, cause result.Cause, threads ...string) result.Stall {
		return result.Stall{AtNS: 1000 * at, ForNS: 1000 * length, Cause: cause, Threads: threads}
	}
	const server, caller = "daemon 0 of rank 0", "client 1 of rank 1"
	for name, c := range map[string]struct {
		ranks []record.Report
		steal uint64 // microseconds
		idle  bool   // nothing was completed
		want  []result.Stall
	}{
		"none": {ranks: []record.Report{gapped(0, true), gapped(1, false)}},
		"one thread was preempted": {
			ranks: []record.Report{gapped(0, true, gap(100, 5000, record.Gap{Involuntary: 2})),
				gapped(1, false)},
			want: []result.Stall{stall(100, 5000, result.CauseSwitch, server)},
		},
		"one thread got no processor after a wait": {
			ranks: []record.Report{gapped(0, true,
				gap(100, 5000, record.Gap{Parked: true, Voluntary: 1})), gapped(1, false)},
			want: []result.Stall{stall(100, 5000, result.CauseSwitch, server)},
		},
		"causes of one thread": {
			ranks: []record.Report{gapped(0, true,
				gap(1000, 50, record.Gap{Collections: 1, Involuntary: 1}),
				gap(2000, 60, record.Gap{MajorFaults: 1, Voluntary: 1}),
				gap(3000, 70, record.Gap{MinorFaults: 256}), gap(4000, 80, none))},
			want: []result.Stall{
				stall(1000, 50, result.CauseCollector, server),
				stall(2000, 60, result.CausePageFault, server),
				stall(3000, 70, result.CausePageFault, server),
				stall(4000, 80, result.CauseUnknown, server),
			},
		},
		"both at once": {
			ranks: []record.Report{gapped(0, true, gap(100, 5000, none)),
				gapped(1, false, gap(150, 4900, record.Gap{Involuntary: 1}))},
			want: []result.Stall{stall(100, 5000, result.CauseMachine, server, caller)},
		},
		"the hypervisor": {
			ranks: []record.Report{gapped(0, true, gap(100, 5000, none)),
				gapped(1, false, gap(150, 5100, none))},
			steal: 10_000,
			want:  []result.Stall{stall(100, 5150, result.CauseSteal, server, caller)},
		},
		"steal is of the longest": {
			ranks: []record.Report{gapped(0, true, gap(100, 500, none), gap(2000, 9000, none),
				gap(20_000, 9500, record.Gap{Involuntary: 1}))},
			steal: 9000,
			want: []result.Stall{
				stall(100, 500, result.CauseUnknown, server),
				stall(2000, 9000, result.CauseSteal, server),
				stall(20_000, 9500, result.CauseSwitch, server),
			},
		},
		"silence": {
			ranks: []record.Report{gapped(0, true, gap(100, 5000, none)),
				silent(gapped(1, false, gap(400_000, 20_000, none)), 300_000, 900_000)},
			want: []result.Stall{
				stall(100, 5000, result.CauseUnknown, server),
				stall(300_000, 900_000, result.CauseNoTraffic, caller),
				stall(400_000, 20_000, result.CauseUnknown, caller),
			},
		},
		"silence because a thread stood still": {
			ranks: []record.Report{gapped(0, true,
				gap(310_000, 480_000, record.Gap{Involuntary: 3})),
				silent(gapped(1, false), 300_000, 900_000)},
			want: []result.Stall{stall(310_000, 480_000, result.CauseSwitch, server)},
		},
		"silence because threads stood still in turn": {
			ranks: []record.Report{
				gapped(0, true, gap(300_000, 300_000, none)),
				silent(gapped(1, false, gap(600_000, 300_000, none), gap(900_000, 250_000, none)),
					300_000, 900_000)},
			want: []result.Stall{stall(300_000, 300_000, result.CauseUnknown, server),
				stall(600_000, 300_000, result.CauseUnknown, caller),
				stall(900_000, 250_000, result.CauseUnknown, caller)},
		},
		"nothing was completed": {
			ranks: []record.Report{gapped(0, true, gap(100, 5000, none)),
				lasting1s(gapped(1, false))}, idle: true,
			want: []result.Stall{stall(0, 1_000_000, result.CauseNoTraffic, "client 0 of rank 1",
				caller), stall(100, 5000, result.CauseUnknown, server)},
		},
		"nothing was completed because a thread stood still": {
			ranks: []record.Report{gapped(0, true, gap(100, 900_000, none)),
				lasting1s(gapped(1, false))}, idle: true,
			want: []result.Stall{stall(100, 900_000, result.CauseUnknown, server)},
		},
		"one after the other": {
			ranks: []record.Report{gapped(0, true, gap(100, 1000, none)),
				gapped(1, false, gap(900, 1000, none))},
			want: []result.Stall{stall(100, 1000, result.CauseUnknown, server),
				stall(900, 1000, result.CauseUnknown, caller)},
		},
		"threads of one rank": {
			ranks: []record.Report{
				gapped(1, false, gap(100, 1000, record.Gap{Collections: 1})),
				gapped(1, true, gap(100, 1000, record.Gap{Collections: 1})),
			},
			want: []result.Stall{stall(100, 1000, result.CauseCollector, caller,
				"daemon 0 of rank 1")},
		},
	} {
		require.Equal(t, c.want, append([]result.Stall(nil),
			Stalls(c.ranks, 1000*c.steal, c.idle)...), name)
	}
}

// TestStallsOfTwoHosts has gaps of hosts whose clocks differ.
func TestStallsOfTwoHosts(t *testing.T) {
	near := gapped(0, true, record.Gap{AtNS: 100, ForNS: 1000})
	far := gapped(1, true, record.Gap{AtNS: 100, ForNS: 1000})
	const apart = 1e15
	far.Daemons[0].Thread.StartNS += apart
	far.Daemons[0].Thread.Gaps[0].AtNS += apart
	stalls := Stalls([]record.Report{far, near}, 0, false)
	require.Len(t, stalls, 2)
	for _, s := range stalls {
		require.EqualValues(t, 100_000, s.AtNS)
		require.Len(t, s.Threads, 1)
	}
}

// TestLongestStallsAreListed has more stalls than a result lists.
func TestLongestStallsAreListed(t *testing.T) {
	var gaps []record.Gap
	for i := range uint64(40) {
		gaps = append(gaps, record.Gap{AtNS: 10_000 * i, ForNS: 100 + (i*7)%40})
	}
	stalls := Stalls([]record.Report{gapped(0, true, gaps...)}, 0, false)
	require.Len(t, stalls, keptStalls)
	for i, s := range stalls {
		require.GreaterOrEqual(t, s.ForNS, uint64(100+40-keptStalls)*1000)
		if i > 0 {
			require.Greater(t, s.AtNS, stalls[i-1].AtNS)
		}
	}
}
