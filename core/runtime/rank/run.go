package rank

import (
	"cmp"
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

	"transportbench/core/base/carrier"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/client"
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

const (
	// progressEvery is long, because each report interrupts a polling thread for 0.2 to 0.5 ms
	// where no processor is left for it: every 100 ms, these were the most frequent stalls of
	// windows.
	progressEvery = time.Second
	// warmupProgressEvery is short, so that the host soon sees steady throughput. With shorter
	// windows it is as short as they are, down to minProgressEvery.
	warmupProgressEvery = 10 * time.Millisecond
	minProgressEvery    = 2 * time.Millisecond
	// warmupSampling feeds the live view only; the latencies of a warm-up are dropped.
	warmupSampling = 64
	// memoryLimit bounds the Go heap while the collector is off.
	memoryLimit = 4 << 30
)

// Run implements [record.Control].
func (r *Rank) Run(ctx context.Context, window record.Window, started func(),
	progress func(record.Progress)) (record.Report, error) {
	if len(r.threads) == 0 {
		return record.Report{}, errors.New("run a window: the rank is not prepared")
	}
	if err := r.each(ctx, (*thread).checkUnanswered); err != nil {
		return record.Report{}, fmt.Errorf("run a window: %w", err)
	}
	if !window.Warmup { // after which the heap is cleaned anyway
		runtime.GC()
	}
	if !r.goroutines() {
		defer pauseCollector()()
	}
	var watch *carrier.Watch
	if !window.Warmup {
		watch = carrier.NewWatch()
	}
	collections, threads, began := machine.GCCycles(), machine.ReadThreadTimes(), time.Now()
	measuring := make(chan struct{})
	r.mu.Lock()
	r.state.Reset()
	r.measuring = measuring
	r.mu.Unlock()
	sampleEvery := cmp.Or(window.SampleEvery, warmupSampling)
	r.sampleEvery = sampleEvery
	run := r.launch(sampleEvery, window)
	storm := r.startStorm(ctx, window)
	run.entered.Wait()
	started()
	stopped := r.supervise(ctx, window, measuring, run, progress)

	report := record.Report{Rank: r.plan.Rank, SampleEvery: sampleEvery, Stopped: stopped,
		Storm: storm(), Process: r.processReport(collections)}
	now := machine.ReadThreadTimes()
	report.Process.Threads = len(now)
	report.Process.BusyThreads = now.Busy(threads, time.Since(began)/100)
	err := run.collect(&report)
	report.Process.CPUNS, report.Process.SystemNS = run.process.CPUNS, run.process.SystemNS
	if watch != nil {
		report.Carried = watch.Carried()
	}
	if report.Setup = r.setupReport(); report.Setup != nil && err == nil {
		report.Setup.Paths = r.paths(ctx)
	}
	if window.Warmup {
		report.SampleEvery = r.adviseSampling(report.Clients)
		r.sampleEvery = report.SampleEvery
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
		ClockStepNS: clockStep(),
		ClockCostNS: clockCost(),
		NoCounters:  r.threads[0].counters.reason,
	}
	p.PeakRSS, _ = machine.PeakRSS()
	return p
}

// clockStep is the resolution of the clock in nanoseconds.
var clockStep = sync.OnceValue(func() float64 { return machine.Calibrated().Step() })

// clockCost is the time of one clock reading in nanoseconds.
var clockCost = sync.OnceValue(func() float64 {
	clock := machine.Calibrated()
	return float64(clock.Nanos(loop.ReadCost(clock)*1024)) / 1024
})

// pauseCollector turns the collector off until restore, unless the heap reaches memoryLimit.
func pauseCollector() (restore func()) {
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(memoryLimit)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// windowRun is a window in progress.
type windowRun struct {
	entered  sync.WaitGroup
	drained  chan struct{} // closed when the clients are done
	finished chan struct{} // closed when all threads are done
	results  []threadResult
	process  machine.Usage // in the window of the first thread
	trace    int           // transfers of each worker
}

type threadResult struct {
	client *record.ClientReport
	daemon *record.DaemonReport
	err    error
}

// setSeries adds the worker's time series, rounded to three digits.
func (result *threadResult) setSeries(list []transport.Series) {
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

// setTrace adds the steps of the worker's transfers.
func (result *threadResult) setTrace(list []transport.Transfer) {
	if result.daemon != nil {
		result.daemon.Trace = list
	} else {
		result.client.Trace = list
	}
}

// collect moves the threads' results into report, including those of failed threads, and
// returns the first error.
func (run *windowRun) collect(report *record.Report) (err error) {
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

// clientWindow returns what the client of a thread does in a window.
func (r *Rank) clientWindow(t *thread, sampleEvery int, window record.Window) client.Window {
	cfg, pair := &r.plan.Config, window.Pair
	w := client.Window{
		SampleEvery: sampleEvery, Duration: window.Duration,
		Silent: window.Only > 0 && window.Only-1 != cfg.ClassOf(t.id.Client) ||
			pair != nil && pair.From != r.plan.Rank || cfg.CallsShare(r.plan.Rank) == 0,
	}
	w.FirstCalls = window.Warmup && r.setup != nil && !cfg.Proxied() && !w.Silent
	if pair != nil {
		w.Target = pair.To + 1
	}
	return w
}

// launch starts the loop of every thread.
func (r *Rank) launch(sampleEvery int, window record.Window) *windowRun {
	run := &windowRun{
		drained: make(chan struct{}), finished: make(chan struct{}),
		results: make([]threadResult, len(r.threads)), trace: window.Trace,
	}
	var running, calling atomic.Int32
	running.Store(int32(len(r.threads)))
	for _, t := range r.threads {
		run.entered.Add(1)
		if t.client != nil {
			calling.Add(1)
			t.client.Begin(r.clientWindow(t, sampleEvery, window))
		} else {
			t.daemon.Begin()
		}
	}
	done := func(t *thread) {
		if t.client != nil && calling.Add(-1) == 0 {
			close(run.drained)
		}
		if running.Add(-1) == 0 {
			close(run.finished)
		}
	}
	for i, t := range r.threads {
		if t.group.follows(t) {
			continue // the group's first thread runs it
		}
		go func() {
			t.work <- func() {
				if t.group != nil {
					r.runGroup(t.group, run.results[i:], run, window.Duration)
				} else {
					r.runThread(t, &run.results[i], run, window.Duration)
				}
				for _, member := range t.group.members(t) {
					done(member)
				}
			}
		}()
	}
	return run
}

// runThread runs the window of one thread, on that thread.
func (r *Rank) runThread(t *thread, result *threadResult, run *windowRun, window time.Duration) {
	w := r.newThreadWindow(t, result, run, window)
	run.entered.Done()
	if t.daemon != nil {
		w.finish(t.daemon.Run(&r.state, w.begin, w.end))
	} else {
		w.finish(t.client.Run(&r.state, w.begin, w.end))
	}
}

// threadWindow records the window of one thread.
type threadWindow struct {
	r        *Rank
	t        *thread
	result   *threadResult
	run      *windowRun
	length   time.Duration
	counters *workerCounters
	recorder transport.Recorder // nil if the worker is none
	before   *usage
	process  machine.Usage
	report   record.ThreadReport
}

func (r *Rank) newThreadWindow(t *thread, result *threadResult, run *windowRun,
	length time.Duration) *threadWindow {
	w := &threadWindow{r: r, t: t, result: result, run: run, length: length,
		counters: newWorkerCounters(t.worker)}
	w.recorder, _ = t.worker.(transport.Recorder)
	return w
}

// begin is called when measuring begins.
func (w *threadWindow) begin() {
	w.counters.begin()
	if w.recorder != nil {
		w.recorder.StartRecording(transport.Recording{Parts: record.Slices, Window: w.length,
			Transfers: w.run.trace})
	}
	w.before = w.t.usage()
	if w.t == w.r.threads[0] {
		w.process, _ = machine.ReadProcessUsage() // 0 if the kernel does not report it
	}
}

// end is called when measuring ends.
func (w *threadWindow) end() {
	w.report = w.before.since()
	if now, err := machine.ReadProcessUsage(); err == nil && w.t == w.r.threads[0] {
		w.run.process = now.Sub(w.process)
	}
	w.counters.end()
}

// finish stores what was recorded, and the error of the thread, which stops the others.
func (w *threadWindow) finish(err error) {
	result := w.result
	if w.t.daemon != nil {
		daemon := w.t.daemon.Report(w.report)
		daemon.Transport = w.counters.window()
		result.daemon = &daemon
	} else {
		client := w.t.client.Report(w.report)
		client.Transport = w.counters.window()
		result.client = &client
	}
	if w.recorder != nil {
		recorded := w.recorder.ReadRecording()
		result.setSeries(recorded.Series)
		result.setTrace(recorded.Transfers)
	}
	if err != nil {
		result.err = loop.ExplainLoss(w.t.worker, err)
		w.r.advance(record.StateStopped)
	}
}

// supervise ends the window that Advance has begun once its time is over, waits for all threads,
// and reports whether it was cut short.
func (r *Rank) supervise(ctx context.Context, window record.Window, measuring <-chan struct{},
	run *windowRun, progress func(record.Progress)) (stopped bool) {
	every := progressEvery
	if window.Warmup {
		every = max(min(warmupProgressEvery, time.Duration(r.plan.Config.Duration)),
			minProgressEvery)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	clients := r.clients()
	drained := run.drained
	if len(clients) == 0 {
		ticker.Stop()
		drained = nil
	}
	var begin time.Time
	var over <-chan time.Time
	cancelled := ctx.Done()
	for {
		select {
		case <-measuring:
			measuring = nil
			begin = time.Now()
			timer := time.NewTimer(window.Duration)
			defer timer.Stop()
			over = timer.C
		case <-run.finished:
			return stopped || begin.IsZero() || time.Since(begin) < window.Duration
		case <-over:
			r.advance(record.StateDraining)
		case <-drained:
			drained = nil
			ticker.Stop()
			var last record.Progress
			if !begin.IsZero() {
				last = client.Progress(clients, time.Since(begin))
			}
			last.Drained = true
			progress(last)
		case <-cancelled:
			stopped = true
			cancelled = nil
			r.advance(record.StateStopped)
		case <-ticker.C:
			if r.state.Measuring() && !begin.IsZero() {
				progress(client.Progress(clients, time.Since(begin)))
			}
		}
	}
}

func (r *Rank) clients() (list []*client.Client) {
	for _, t := range r.threads {
		if t.client != nil {
			list = append(list, t.client)
		}
	}
	return list
}

// adviseSampling returns the latency sampling for the measured windows, chosen by the time
// per op in the warm-up.
func (r *Rank) adviseSampling(clients []record.ClientReport) int {
	if every := r.plan.Config.SampleEvery; every > 0 {
		return every
	}
	if len(clients) == 0 {
		return 0
	}
	return loop.SampleEveryFor(client.SampleCost(machine.Calibrated()), busyPerOp(clients))
}

// busyPerOp returns the shortest processor time per op of any client, in nanoseconds. It uses
// processor time because clients that share a processor spend most of an op's elapsed time
// off it, and stamps cost processor time.
func busyPerOp(clients []record.ClientReport) float64 {
	shortest := math.Inf(1)
	for i := range clients {
		c := &clients[i]
		if ops := c.Ops(); ops > 0 {
			shortest = min(shortest, float64(c.Thread.Busy(c.ElapsedNS))/float64(ops))
		}
	}
	return shortest
}
