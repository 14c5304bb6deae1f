package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// runWindow takes all ranks through one window and returns their reports by rank. Servers are in
// their loops before any client calls, and serve until the last client is done. If ctx ends or a
// rank fails, runWindow stops the others within stopGrace and returns the reports of all ranks
// together with the error.
func (b *bench) runWindow(ctx context.Context, spec record.Window) ([]record.Report, error) {
	// The end of ctx must not break the calls of Run: Advance stops them.
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	n := len(b.plans)
	w := &window{
		bench: b, spec: spec,
		outcomes: make(chan outcome, n), started: make(chan int, n), drains: make(chan int, n),
		reports: make([]record.Report, n),
		running: make([]bool, n), drained: make([]bool, n), done: make([]bool, n),
	}
	for r := range w.reports {
		w.reports[r].Rank = r
	}
	err := w.run(ctx, runCtx)
	b.takeSetups(w.reports)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		w.abort(runCtx)
		err = w.cause(err)
	}
	return w.reports, err
}

// window is one window in progress. Each channel has room for one value of every rank.
type window struct {
	*bench
	spec     record.Window
	outcomes chan outcome
	started  chan int // ranks whose threads are in their loops
	drains   chan int // ranks whose clients are done
	reports  []record.Report
	running  []bool          // the rank's threads are in their loops
	drained  []bool          // the rank's clients are done
	done     []bool          // the rank's Run has returned
	isSteady <-chan struct{} // closed when the warm-up is steady; nil in measured windows
	failures []error         // of ranks, while the window is aborted
	stopping bool
}

// outcome is what Run of one rank returned.
type outcome struct {
	rank   int
	report record.Report
	err    error
}

func (w *window) run(ctx, runCtx context.Context) error {
	w.start(runCtx)
	if err := w.wait(ctx, 0, w.all(), w.running); err != nil {
		return err
	}
	// Servers must count before the first call arrives. In a mesh, all ranks serve.
	groups := [][]int{w.servers(), w.callers()}
	if w.cfg.Mesh() {
		groups = groups[:1]
	}
	for _, group := range groups {
		if err := w.advance(ctx, group, record.StateMeasuring); err != nil {
			return err
		}
	}
	if w.spec.Warmup {
		w.isSteady = w.steady.watch()
		defer w.steady.unwatch()
	} else if w.firstWindow.IsZero() {
		w.firstWindow = time.Now()
	}
	if err := w.wait(ctx, w.spec.Duration, w.callers(), w.drained); err != nil {
		return err
	}
	w.isSteady, w.stopping = nil, true
	drained := time.Now()
	if err := w.advance(ctx, w.servers(), record.StateStopped); err != nil {
		return err
	}
	err := w.wait(ctx, 0, w.all(), w.done)
	if !w.spec.Warmup && w.collected == 0 {
		w.collected = time.Since(drained)
	}
	return err
}

// start calls Run of every rank.
func (w *window) start(ctx context.Context) {
	for _, r := range w.all() {
		process := w.ranks.process(r)
		var started, drained sync.Once
		w.ranks.calls.Go(func() {
			report, err := process.Run(ctx, w.spec,
				func() { started.Do(func() { w.started <- r }) },
				func(p record.Progress) {
					w.progress.update(r, p)
					w.steady.update(r, p)
					if p.Drained {
						drained.Do(func() { w.drains <- r })
					}
				})
			w.outcomes <- outcome{r, report, err}
		})
	}
}

// wait returns once every rank in ranks has reached state, which is running, drained or done. It
// returns an error if a rank fails, or has used margin of its own time beyond the planned time.
func (w *window) wait(ctx context.Context, planned time.Duration, ranks []int, state []bool) error {
	waiting, done := context.WithCancel(ctx)
	defer done()
	over := time.NewTimer(planned)
	defer over.Stop()
	late := make(chan int, len(ranks))
	tooLate := noAnswer(planned + margin)
	for {
		missing := slices.IndexFunc(ranks, func(r int) bool { return !state[r] })
		if missing < 0 {
			return nil
		}
		select {
		case o := <-w.outcomes:
			if err := w.take(o); err != nil {
				return err
			}
		case r := <-w.started:
			w.running[r] = true
		case r := <-w.drains:
			w.drained[r] = true
		case <-w.isSteady:
			w.isSteady = nil
			w.settled = true
			// Wait for the answers: a late one would end the next window.
			if err := w.advance(ctx, w.callers(), record.StateDraining); err != nil {
				return err
			}
		case <-over.C:
			for _, r := range ranks {
				if !state[r] {
					context.AfterFunc(w.ownTime(waiting, r, margin, tooLate), func() { late <- r })
				}
			}
		case r := <-late:
			if !state[r] {
				return w.ranks.failed(r, "run", tooLate)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take notes the end of one rank's Run.
func (w *window) take(o outcome) error {
	r := o.rank
	w.reports[r] = o.report
	w.reports[r].Rank = r
	w.running[r], w.drained[r], w.done[r] = true, true, true
	switch {
	case o.err != nil:
		return w.ranks.failed(r, "run", o.err)
	case !w.stopping && w.cfg.Serves(r):
		return w.ranks.failed(r, "run",
			errors.New("it stopped serving before the clients were done"))
	}
	return nil
}

// advance moves ranks to a later state of the window.
func (w *window) advance(ctx context.Context, ranks []int, to record.State) error {
	_, err := patientAll(ctx, w.bench, ranks, "advance", margin, noAnswer(margin),
		func(ctx context.Context, r int) (struct{}, error) {
			return struct{}{}, w.ranks.process(r).Advance(ctx, to)
		})
	return err
}

// abort stops a window that failed or was interrupted: first the clients, because they have to
// drain, then the servers. The caller kills the ranks that do not stop.
func (w *window) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	w.stopping = true
	for _, step := range []struct {
		ranks []int
		state []bool
		to    record.State
	}{
		{w.callers(), w.drained, record.StateDraining},
		{w.all(), w.done, record.StateStopped},
	} {
		ranks := slices.DeleteFunc(step.ranks, func(r int) bool { return step.state[r] })
		// each by itself, so that the failure of one does not stop the others
		for _, r := range ranks {
			w.ranks.calls.Go(func() { _ = w.ranks.process(r).Advance(ctx, step.to) })
		}
		half, cancel := context.WithTimeout(ctx, stopGrace/2)
		w.gather(half, ranks, step.state)
		cancel()
	}
}

// gather notes what ranks do until each has reached state or ctx ends.
func (w *window) gather(ctx context.Context, ranks []int, state []bool) {
	for slices.ContainsFunc(ranks, func(r int) bool { return !state[r] }) {
		select {
		case o := <-w.outcomes:
			if err := w.take(o); err != nil {
				w.failures = append(w.failures, err)
			}
		case r := <-w.drains:
			w.drained[r] = true
		case <-ctx.Done():
			return
		}
	}
}

// cause returns the failure behind err: if err says that a peer was lost, the error of a rank
// that failed for another reason.
func (w *window) cause(err error) error {
	if !errors.Is(err, transport.ErrPeerDown) {
		return err
	}
	for _, other := range w.failures {
		if !errors.Is(other, transport.ErrPeerDown) {
			return other
		}
	}
	return err
}
