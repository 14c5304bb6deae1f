package rank

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

const (
	progressEvery = 100 * time.Millisecond
	// warmupProgressEvery lets the host see soon that throughput is steady.
	warmupProgressEvery = 25 * time.Millisecond
	// warmupSampling is for latencies that nobody keeps but the live view.
	warmupSampling = 64
)

// Run implements [Control].
func (r *Rank) Run(ctx context.Context, window record.Window, started func(), progress func(record.Progress)) (record.Report, error) {
	if len(r.threads) == 0 {
		return record.Report{}, errors.New("running a phase: the rank is not prepared")
	}
	restore := quietCollector()
	defer restore()
	collections := machine.GCCycles()
	begun := make(chan struct{})
	r.mu.Lock()
	r.state.reset()
	r.begun = begun
	r.mu.Unlock()
	sampleEvery := window.SampleEvery
	if sampleEvery == 0 {
		sampleEvery = warmupSampling
	}
	run := r.launch(sampleEvery, window.Duration)
	run.entered.Wait()
	started()
	stopped := r.conduct(ctx, window, begun, run, progress)

	report := record.Report{Rank: r.plan.Rank, SampleEvery: sampleEvery, Stopped: stopped, Process: r.processReport(collections)}
	err := run.collect(&report)
	if window.Warmup {
		report.SampleEvery = r.adviseSampling(report.Clients)
	}
	if err != nil {
		err = fmt.Errorf("rank %d: %w", r.plan.Rank, err)
	}
	return report, err
}

func (r *Rank) processReport(collections uint64) record.ProcessReport {
	clock := machine.Calibrated()
	p := record.ProcessReport{
		Collections: machine.GCCycles() - collections,
		Clock:       clock.Name(),
		ClockStepNS: clockStep(clock),
		NoCounters:  r.threads[0].counters.reason,
	}
	p.PeakRSS, _ = machine.PeakRSS()
	for _, t := range r.threads {
		if t.client != nil {
			p.ClockCostNS = float64(clock.Nanos(t.client.readCost*1024)) / 1024
			break
		}
	}
	return p
}

// quietCollector collects now and not again until restored, unless memory runs
// away.
func quietCollector() (restore func()) {
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(memoryLimit)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

const memoryLimit = 4 << 30

// phaseRun is one phase under way.
type phaseRun struct {
	entered  sync.WaitGroup
	drained  chan struct{} // closed when the clients are done
	finished chan struct{} // closed when all threads are
	results  []threadResult
}

type threadResult struct {
	client *record.ClientReport
	daemon *record.DaemonReport
	err    error
}

// trace adds the worker's series, in three digits.
func (result *threadResult) trace(list []transport.Series) {
	for i := range list {
		for k, v := range list[i].Values {
			list[i].Values[k], _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
		}
	}
	if result.daemon != nil {
		result.daemon.Series = list
	} else {
		result.client.Series = list
	}
}

// collect puts the threads' results into a report, those of threads that failed
// included, and returns the first error.
func (run *phaseRun) collect(report *record.Report) (err error) {
	for i := range run.results {
		result := &run.results[i]
		if err == nil {
			err = result.err
		}
		if result.client != nil {
			report.Clients = append(report.Clients, *result.client)
		}
		if result.daemon != nil {
			report.Daemons = append(report.Daemons, *result.daemon)
		}
	}
	return err
}

// launch puts every thread into its loop.
func (r *Rank) launch(sampleEvery int, duration time.Duration) *phaseRun {
	run := &phaseRun{
		drained: make(chan struct{}), finished: make(chan struct{}),
		results: make([]threadResult, len(r.threads)),
	}
	var left, calling atomic.Int32
	left.Store(int32(len(r.threads)))
	for _, t := range r.threads {
		run.entered.Add(1)
		if t.client != nil {
			calling.Add(1)
			t.client.begin(sampleEvery, duration)
		} else {
			t.daemon.begin()
		}
	}
	for i, t := range r.threads {
		go func() {
			t.work <- func() {
				r.runThread(t, &run.results[i], run, duration)
				if t.client != nil && calling.Add(-1) == 0 {
					close(run.drained)
				}
				if left.Add(-1) == 0 {
					close(run.finished)
				}
			}
		}()
	}
	return run
}

// runThread is the phase of one thread, on that thread.
func (r *Rank) runThread(t *thread, result *threadResult, run *phaseRun, window time.Duration) {
	var before *usage
	var report record.ThreadReport
	tracer, traces := t.worker.(transport.Tracer)
	atBegin := func() {
		if traces {
			tracer.BeginTrace(record.Slices, window)
		}
		before = newUsage(t.counters)
	}
	atEnd := func() { report = before.since() }
	run.entered.Done()
	if t.daemon != nil {
		result.err = t.daemon.run(&r.state, atBegin, atEnd)
		daemon, err := t.daemon.report(report)
		result.daemon, result.err = &daemon, errors.Join(result.err, err)
	} else {
		result.err = t.client.run(&r.state, atBegin, atEnd)
		client, err := t.client.report(report)
		result.client, result.err = &client, errors.Join(result.err, err)
	}
	if traces {
		result.trace(tracer.ReadTrace(nil))
	}
	if result.err != nil {
		r.advance(record.StateStopped)
	}
}

// conduct moves the phase through its stages until all threads are done, and
// says whether it was cut short.
func (r *Rank) conduct(ctx context.Context, window record.Window, begun <-chan struct{}, run *phaseRun, progress func(record.Progress)) (stopped bool) {
	var begin time.Time
	every := progressEvery
	if window.Warmup {
		every = warmupProgressEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	clients := r.clients()
	drained := run.drained
	if len(clients) == 0 {
		ticker.Stop()
		drained = nil
	}
	var over <-chan time.Time
	cancelled := ctx.Done()
	for {
		select {
		case <-begun:
			begun = nil
			begin = time.Now()
			window := time.NewTimer(window.Duration)
			defer window.Stop()
			over = window.C
		case <-run.finished:
			return stopped || begin.IsZero() || time.Since(begin) < window.Duration
		case <-over:
			r.advance(record.StateDraining)
		case <-drained:
			drained = nil
			ticker.Stop()
			var last record.Progress
			if !begin.IsZero() {
				last = progressOf(clients, time.Since(begin))
			}
			last.Drained = true
			progress(last)
		case <-cancelled:
			stopped = true
			cancelled = nil
			r.advance(record.StateStopped)
		case <-ticker.C:
			if r.state.measuring() && !begin.IsZero() {
				progress(progressOf(clients, time.Since(begin)))
			}
		}
	}
}

func (r *Rank) clients() (list []*client) {
	for _, t := range r.threads {
		if t.client != nil {
			list = append(list, t.client)
		}
	}
	return list
}

// adviseSampling chooses the latency sampling for the windows from how long an
// op took in the warm-up.
func (r *Rank) adviseSampling(clients []record.ClientReport) int {
	if every := r.plan.Config.SampleEvery; every > 0 {
		return every
	}
	if len(clients) == 0 {
		return 0
	}
	return sampleEveryFor(sampleCost(machine.Calibrated()), busyPerOp(clients))
}

// busyPerOp is the least processor time that a client took for an operation, in
// nanoseconds. Where clients share a processor, their time for an operation is
// not what stamping it takes from.
func busyPerOp(clients []record.ClientReport) float64 {
	least := math.Inf(1)
	for i := range clients {
		c := &clients[i]
		if ops := c.Reads + c.Writes + c.Lookups; ops > 0 {
			least = min(least, float64(c.Thread.Busy(c.ElapsedNS))/float64(ops))
		}
	}
	return least
}

func isPeerDown(err error) bool { return errors.Is(err, transport.ErrPeerDown) }
