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

// all, servers and callers are rank numbers. In a mesh every rank is both.
func (b *bench) all() []int     { return numbers(0, len(b.plans)) }
func (b *bench) servers() []int { return numbers(0, b.cfg.ServingRanks()) }
func (b *bench) callers() []int {
	return numbers(len(b.plans)-b.cfg.CallingRanks(), len(b.plans))
}

func numbers(from, to int) []int {
	list := make([]int, 0, to-from)
	for r := from; r < to; r++ {
		list = append(list, r)
	}
	return list
}

// phase takes all ranks through one phase and returns their reports by rank.
// Servers are in their loops before any client calls, and stay there until the
// last client is done. Where ctx ends or a rank fails, the others are asked to
// stop and given some time to do so; their reports come beside the error.
func (b *bench) phase(ctx context.Context, spec record.Window) ([]record.Report, error) {
	// The ranks do not see the end of ctx, but a call of Advance.
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	p := &phase{
		b: b, spec: spec,
		outcomes: make(chan outcome, len(b.plans)),
		begins:   make(chan int, len(b.plans)),
		drains:   make(chan int, len(b.plans)),
		reports:  make([]record.Report, len(b.plans)),
		begun:    make([]bool, len(b.plans)),
		done:     make([]bool, len(b.plans)),
		drained:  make([]bool, len(b.plans)),
	}
	for r := range p.reports {
		p.reports[r].Rank = r
	}
	err := p.run(ctx, runCtx)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		p.abort(runCtx)
		err = p.cause(err)
	}
	return p.reports, err
}

// cause prefers a rank that failed by itself to those that lost it as a peer.
func (p *phase) cause(err error) error {
	if !errors.Is(err, transport.ErrPeerDown) {
		return err
	}
	for _, other := range p.failures {
		if !errors.Is(other, transport.ErrPeerDown) {
			return other
		}
	}
	return err
}

// phase is one phase in progress.
type phase struct {
	b        *bench
	spec     record.Window
	outcomes chan outcome // has room for every rank
	begins   chan int     // likewise: ranks that are in their loops
	drains   chan int     // likewise: ranks whose clients are done
	reports  []record.Report
	begun    []bool
	done     []bool // Run has returned
	drained  []bool
	settled  <-chan struct{} // told of a steady warm-up; nil in windows
	failures []error         // of ranks, beside the first
	running  bool
	stopping bool
}

// outcome is the end of one rank's Run.
type outcome struct {
	rank   int
	report record.Report
	err    error
}

func (p *phase) run(ctx, runCtx context.Context) error {
	p.start(runCtx)
	if err := p.wait(ctx, margin, p.b.all(), p.begun); err != nil {
		return err
	}
	// Whoever serves counts before the first call comes; in a mesh all begin
	// together.
	groups := [][]int{p.b.servers(), p.b.callers()}
	if p.b.cfg.Mesh() {
		groups = groups[:1]
	}
	for _, group := range groups {
		if err := p.advance(ctx, group, record.StateMeasuring); err != nil {
			return err
		}
	}
	if !p.spec.Warmup && p.b.firstWindow.IsZero() {
		p.b.firstWindow = time.Now()
	}
	if p.spec.Warmup {
		p.settled = p.b.steady.watch()
		defer p.b.steady.unwatch()
	}
	if err := p.wait(ctx, p.spec.Duration+margin, p.b.callers(), p.drained); err != nil {
		return err
	}
	p.settled, p.stopping = nil, true
	if err := p.advance(ctx, p.b.servers(), record.StateStopped); err != nil {
		return err
	}
	return p.wait(ctx, margin, p.b.all(), p.done)
}

// start calls Run of all ranks.
func (p *phase) start(ctx context.Context) {
	p.running = true
	for _, r := range p.b.all() {
		process := p.b.ranks.process(r)
		var began, drained sync.Once
		p.b.ranks.calls.Go(func() {
			report, err := process.Run(ctx, p.spec,
				func() { began.Do(func() { p.begins <- r }) },
				func(update record.Progress) {
					p.b.progress.update(r, update)
					p.b.steady.update(r, update)
					if update.Drained {
						drained.Do(func() { p.drains <- r })
					}
				})
			p.outcomes <- outcome{r, report, err}
		})
	}
}

// wait returns when all of who are so far, and with an error where a rank failed
// or that does not happen within limit.
func (p *phase) wait(ctx context.Context, limit time.Duration, who []int, far []bool) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		missing := slices.IndexFunc(who, func(r int) bool { return !far[r] })
		if missing < 0 {
			return nil
		}
		select {
		case o := <-p.outcomes:
			if err := p.take(o); err != nil {
				return err
			}
		case r := <-p.begins:
			p.begun[r] = true
		case r := <-p.drains:
			p.drained[r] = true
		case <-p.settled:
			p.settled = nil
			p.b.settled = true
			// Its answers are awaited here: one that came late would end the
			// window of the next phase.
			if err := p.advance(ctx, p.b.callers(), record.StateDraining); err != nil {
				return err
			}
		case <-timer.C:
			return &RankError{Rank: who[missing], Op: "run", Err: noAnswer(limit)}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take notes the end of one rank's Run.
func (p *phase) take(o outcome) error {
	p.reports[o.rank] = o.report
	p.begun[o.rank], p.drained[o.rank], p.done[o.rank] = true, true, true
	p.reports[o.rank].Rank = o.rank
	switch {
	case o.err != nil:
		return &RankError{Rank: o.rank, Op: "run", Err: o.err}
	case !p.stopping && p.b.cfg.Serves(o.rank):
		return &RankError{Rank: o.rank, Op: "run", Err: errors.New("it stopped serving before the clients were done")}
	}
	return nil
}

// advance moves the phase of some ranks on.
func (p *phase) advance(ctx context.Context, who []int, to record.State) error {
	_, err := askAll(ctx, p.b.ranks, who, "advance", margin, func(ctx context.Context, r int) (struct{}, error) {
		return struct{}{}, p.b.ranks.process(r).Advance(ctx, to)
	})
	return err
}

// abort stops a phase that was interrupted or has failed, as well as it can be:
// the clients first, since they drain, and then the servers. Whoever does not
// stop in time is killed soon.
func (p *phase) abort(ctx context.Context) {
	if !p.running {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	p.stopping = true
	for _, step := range []struct {
		who []int
		far []bool
		to  record.State
	}{
		{p.b.callers(), p.drained, record.StateDraining},
		{p.b.all(), p.done, record.StateStopped},
	} {
		var who []int
		for _, r := range step.who {
			if !step.far[r] {
				who = append(who, r)
			}
		}
		for _, r := range who { // one that fails keeps no other from it
			p.b.ranks.calls.Go(func() { _ = p.b.ranks.process(r).Advance(ctx, step.to) })
		}
		p.gather(ctx, who, step.far)
	}
}

// gather takes what comes of some ranks until they are so far, or for half of
// the grace.
func (p *phase) gather(ctx context.Context, who []int, far []bool) {
	timer := time.NewTimer(stopGrace / 2)
	defer timer.Stop()
	for slices.ContainsFunc(who, func(r int) bool { return !far[r] }) {
		select {
		case o := <-p.outcomes:
			if err := p.take(o); err != nil {
				p.failures = append(p.failures, err)
			}
		case r := <-p.drains:
			p.drained[r] = true
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
