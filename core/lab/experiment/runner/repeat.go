package runner

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/sample"
	"transportbench/core/lab/store/result"
)

// maxRemeasure is how often a mixed window is measured again. It is the same for all
// configurations, and nothing but the core distances decides, so no result is preferred.
const maxRemeasure = 2

// A starved or empty window is measured again after a pause that doubles, from the window's length
// or starvedPause: starvedTries times at least, and until pauses and windows have taken
// starvedBudget. The machine's scheduler and not the transport decides what is left to a rank, so
// to replace starved windows prefers no result. To replace an empty one does: the metrics then show
// less of an outage than there was. So the result lists its stall, and a check warns.
const (
	starvedBudget   = 10 * time.Second
	starvedTries    = 3
	starvedPause    = 100 * time.Millisecond
	maxStarvedPause = time.Second
	// starvedShare is the share of a window for which a thread that spins has a processor at least.
	// It is far below a fair share of a processor on a machine that can measure at all.
	starvedShare = 0.01
	// In a window in which nothing was completed, a thread was starved below starvedEmpty of the
	// window, and in one shorter than fewTurns below starvedHalf. Two threads with over half of a
	// window run at the same time for a while. In a longer window, threads that take turns of some
	// milliseconds complete calls with far less.
	starvedEmpty = 0.1
	starvedHalf  = 0.5
	fewTurns     = 20 * time.Millisecond
)

// repeat measures one window, again if it is mixed, starved or empty. It fails if nothing was
// completed in the last one.
func (b *bench) repeat(ctx context.Context, i int) (result.Repeat, error) {
	var discarded []result.Window
	mixes, tries := 0, 0
	pause, lost := min(time.Duration(b.cfg.Duration), starvedPause), time.Duration(0)
	for {
		repeat, err := b.measureWindow(ctx, i, len(discarded) > 0)
		repeat.Remeasured = discarded
		if err != nil {
			if repeat.Ranks != nil {
				b.failed = &repeat
			}
			return repeat, err
		}
		repeat.Mixed = repeat.DistancesApart()
		nothing := b.nothingDone(&repeat)
		var empty string
		if repeat.Starved = b.starved(&repeat, nothing); nothing && repeat.Starved == "" {
			empty = b.empty(&repeat)
		}
		switch {
		case nothing || repeat.Starved != "":
			tries++
			lost += time.Duration(b.cfg.Duration) + pause
			if tries < starvedTries || lost <= starvedBudget {
				break
			}
			if !nothing {
				return repeat, nil
			}
			b.failed = &repeat
			remedy := "stop other programs"
			if empty != "" {
				remedy = "find out what holds the traffic up"
			}
			return repeat,
				fmt.Errorf(
					"repeat %d: %s; %d windows were measured; %s, or use a longer --duration",
					repeat.Index+1, repeat.Starved+empty, tries+mixes, remedy)
		case repeat.Mixed && mixes < maxRemeasure:
			mixes++
		default:
			return repeat, nil
		}
		discarded = append(discarded, result.Window{
			StartedAt: repeat.StartedAt, Throughput: repeat.Samples[result.Throughput],
			DistanceBefore: repeat.Before.CoreDistance, DistanceAfter: repeat.After.CoreDistance,
			Starved: repeat.Starved, Empty: empty, Stalls: repeat.Stalls,
		})
		if repeat.Starved+empty == "" {
			continue
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxStarvedPause)
		case <-ctx.Done():
			return repeat, ctx.Err()
		}
	}
}

// nothingDone reports whether nothing was completed in a window although something was due.
func (b *bench) nothingDone(r *result.Repeat) bool {
	var ops, due uint64
	for _, c := range r.Clients() {
		ops += c.Ops()
		if c.Open != nil {
			due += c.Open.Scheduled
		}
	}
	load := b.cfg.Load()
	return ops == 0 && (due > 0 || load == config.LoadClosed || load == config.LoadClasses ||
		load == config.LoadBursts)
}

// starved returns why a window measured next to nothing: a rank had no processor, or if nothing was
// completed in it, little of one. It is empty for other windows.
func (b *bench) starved(r *result.Repeat, nothing bool) string {
	rank, share := b.minProcessor(r.Ranks)
	length := time.Duration(b.cfg.Duration)
	enough := starvedShare
	switch {
	case nothing && length < fewTurns:
		enough = starvedHalf
	case nothing:
		enough = starvedEmpty
	}
	switch {
	case share >= enough, !nothing && b.plans[rank].Idle != config.IdleSpin:
		return ""
	case nothing:
		return fmt.Sprintf("nothing was completed in %v: %s", length, b.processorTime(rank, share))
	}
	return fmt.Sprintf("in a window of %v, %s", length, b.processorTime(rank, share))
}

// empty describes a window in which nothing was completed although no rank was starved.
func (b *bench) empty(r *result.Repeat) string {
	reason := fmt.Sprintf("nothing was completed in %v, and no rank was starved",
		time.Duration(b.cfg.Duration))
	if rank, share := b.minProcessor(r.Ranks); share < 1 {
		reason += ": " + b.processorTime(rank, share)
	}
	return reason
}

// processorTime describes a share of a window for which a rank had a processor.
func (b *bench) processorTime(rank int, share float64) string {
	had := time.Duration(share * float64(b.cfg.Duration)).Round(10 * time.Microsecond)
	if b.plans[rank].Idle == config.IdlePark {
		return fmt.Sprintf("rank %d waited %v for a processor", rank,
			time.Duration(b.cfg.Duration)-had)
	}
	return fmt.Sprintf("rank %d had a processor for %v", rank, had)
}

// minProcessor returns the rank of the polling thread that had the least of a processor in the
// window, and its share of the window; 1 if that is unknown. A thread that sleeps while it is idle
// uses no processor then, so its share is the time without gaps, which are what stopped it.
func (b *bench) minProcessor(ranks []record.Report) (rank int, share float64) {
	share = 1
	for _, t := range record.Threads(ranks) {
		had := t.ElapsedNS - min(t.ElapsedNS, t.GapNS)
		if b.plans[t.Rank].Idle != config.IdlePark {
			had = t.CPUNS
		}
		if t.CPUNS > 0 && t.ElapsedNS > 0 && float64(had)/float64(t.ElapsedNS) < share {
			rank, share = t.Rank, float64(had)/float64(t.ElapsedNS)
		}
	}
	return rank, share
}

// measureWindow measures one window with the readings and the overhead of the harness beside it.
// The repeat has reports of ranks if the window began. again means that it is not planned for.
func (b *bench) measureWindow(ctx context.Context, i int, again bool) (repeat result.Repeat,
	err error) {
	nth, duration := b.earlier+i+1, time.Duration(b.cfg.Duration)
	repeat = result.Repeat{Index: nth - 1}
	if again {
		b.progress.extend(windowTime(b.cfg, b.req.Beside) + 2*b.witness.Expected())
	}
	step := func(name string, planned time.Duration, run func(context.Context) error) error {
		b.progress.enter(name, nth, planned)
		if i > 0 || again {
			return run(ctx)
		}
		return b.timed(ctx, name, run) // of the setup, which ends with the first window
	}
	if !b.req.StateOnly {
		err = step(StepOverhead, overheadPlanned(b.cfg, b.req.Beside),
			func(ctx context.Context) (err error) {
				repeat.Overhead, err = b.measureOverhead(ctx)
				return err
			})
		if err != nil {
			return repeat, err
		}
	}
	witnessed, err := b.readWitness(ctx, nth)
	if err != nil {
		return repeat, err
	}
	err = step(StepFloor, probesPlanned(b.cfg, b.req.Beside),
		func(ctx context.Context) (err error) {
			repeat.Before, err = b.readings(ctx, true)
			repeat.Before.Witness = witnessed
			return err
		})
	if err != nil {
		return repeat, err
	}
	b.progress.enter(StepRepeat, nth, duration)
	watch := b.watchMachine()
	network := b.watchNetwork()
	repeat.StartedAt = time.Now()
	window := record.Window{Duration: duration, SampleEvery: b.sampleEvery}
	if b.req.Trace != nil && i == 0 {
		window.Trace = traced
	}
	repeat.Ranks, err = b.runWindow(ctx, window)
	if window.Trace > 0 {
		b.req.Trace(takeTraces(repeat.Ranks))
	}
	repeat.Network = network()
	repeat.Machine = watch()
	repeat.Stalls = sample.Stalls(repeat.Ranks, repeat.Machine.StealNS, err == nil &&
		b.nothingDone(&repeat))
	if err == nil {
		b.progress.enter(StepFloor, nth, probesPlanned(b.cfg, b.req.Beside))
		repeat.After, err = b.readings(ctx, false)
	}
	if err == nil {
		repeat.After.Witness, err = b.readWitness(ctx, nth)
	}
	filled := sample.Fill(b.cfg, &repeat)
	if filled == nil {
		filled = b.req.fillKinds(&repeat)
	}
	if err == nil {
		err = filled
	}
	return repeat, err
}

// traced is the number of transfers of each worker in a trace, which is then some 2 MB.
const traced = 1000

// takeTraces moves the traces out of reports.
func takeTraces(reports []record.Report) (list []record.ThreadTrace) {
	for _, t := range record.Threads(reports) {
		list = append(list, record.ThreadTrace{Thread: t.Thread, Transfers: *t.Trace})
		*t.Trace = nil
	}
	return list
}

// watchNetwork returns a function that returns what the network did to packets since, or nil if
// there is none.
func (b *bench) watchNetwork() func() *result.NetworkCounters {
	if b.req.Network == nil {
		return func() *result.NetworkCounters { return nil }
	}
	before := b.req.Network.Counters()
	return func() *result.NetworkCounters {
		c := b.req.Network.Counters().Since(before)
		return &c
	}
}

// watchMachine returns a function that returns what the run's processors did since.
func (b *bench) watchMachine() func() result.MachineTime {
	ctx, cpus := context.Background(), b.processors()
	before := b.req.readStates(ctx, cpus)
	began := time.Now()
	return func() result.MachineTime {
		m := result.MachineTime{CoveredNS: uint64(time.Since(began))}
		frequencies := 0.0 // summed over processors
		for h, now := range b.req.readStates(ctx, cpus) {
			spent := now.Times.Sub(before[h].Times)
			m.Processors += len(cpus[h])
			m.StealNS += spent.StealNS
			m.SoftIRQNS += spent.SoftIRQNS
			m.KernelNS += spent.KernelNS
			switch {
			case len(cpus[h]) == 0:
			case now.Frequency > 0 && before[h].Frequency > 0:
				frequencies += float64(len(cpus[h])) * (now.Frequency + before[h].Frequency) / 2
			default:
				frequencies = math.NaN()
			}
		}
		if frequencies > 0 {
			m.Frequency = frequencies / float64(m.Processors)
		}
		return m
	}
}

// processors returns, by host, the processors of the polling threads, or if those are not pinned,
// all on which they may run. Those of hosts that share a machine are with the first of them.
func (b *bench) processors() [][]int {
	hosts := b.req.hosts()
	lists := make([][]int, len(hosts))
	first := map[string]int{}
	for r, p := range b.plans {
		h := b.req.hostOf(r)
		at, known := first[hosts[h].Machine]
		if !known {
			at, first[hosts[h].Machine] = h, h
		}
		for _, cpu := range p.CPUs {
			if cpu >= 0 {
				lists[at] = append(lists[at], cpu)
				continue
			}
			for _, c := range hosts[h].CPUs {
				lists[at] = append(lists[at], c.ID)
			}
		}
	}
	for h := range lists {
		slices.Sort(lists[h])
		lists[h] = slices.Compact(lists[h])
	}
	return lists
}

// measureOverhead measures the cost of the harness on the threads of the window, in all ranks at
// once as in the window. If the threads share processors, it takes one rank after the other.
func (b *bench) measureOverhead(ctx context.Context) (*record.Overhead, error) {
	duration := beside(b.cfg, overheadTime)
	measure := func(ctx context.Context, r int) (record.Overhead, error) {
		return b.ranks.process(r).Overhead(ctx, duration)
	}
	op, timeout := "measuring overhead", duration+margin
	groups := [][]int{numbers(0, len(b.plans))}
	if b.oversubscribed {
		groups = [][]int{{0}}
		if first := b.callers()[:1]; first[0] != 0 {
			groups = append(groups, first)
		}
	}
	var all []record.Overhead
	for _, ranks := range groups {
		list, err := patientAll(ctx, b, ranks, op, timeout, noAnswer(timeout), measure)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	merged := result.MedianOverhead(all)
	return &merged, nil
}
