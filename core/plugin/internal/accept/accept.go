package accept

import (
	"context"
	"sync"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// Rank is a [record.Control] that returns only possible answers of the rank behind it. Prepare has
// to be called first, as its plan bounds the later answers.
type Rank struct {
	record.Control

	mu   sync.Mutex
	plan record.Plan
}

var _ record.Control = (*Rank)(nil)

// New returns a Rank that checks the answers of control.
func New(control record.Control) *Rank { return &Rank{Control: control} }

func (r *Rank) current() record.Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan
}

// Prepare implements [record.Control].
func (r *Rank) Prepare(ctx context.Context, plan record.Plan) (record.Prepared, error) {
	r.mu.Lock()
	r.plan = plan
	r.mu.Unlock()
	prepared, err := r.Control.Prepare(ctx, plan)
	if err == nil {
		err = checkPrepared(&plan, &prepared)
	}
	return prepared, err
}

// Overhead implements [record.Control].
func (r *Rank) Overhead(ctx context.Context, d time.Duration) (record.Overhead, error) {
	began := time.Now()
	overhead, err := r.Control.Overhead(ctx, d)
	if err == nil {
		err = checkOverhead(&overhead, time.Since(began))
	}
	return overhead, err
}

// Probe implements [record.Control]. The side that does not initiate has no reading.
func (r *Rank) Probe(ctx context.Context, probe record.Probe) (transport.Floor, error) {
	began := time.Now()
	floor, err := r.Control.Probe(ctx, probe)
	switch {
	case err != nil:
	case !probe.Initiate:
		floor = transport.Floor{}
	default:
		err = checkFloor(probe.Kind, &floor, time.Since(began))
	}
	return floor, err
}

// Run implements [record.Control]. Progress that is impossible stops the window. If the rank failed
// by itself, an impossible report is dropped and that failure returned.
func (r *Rank) Run(
	ctx context.Context, spec record.Window, started func(), progress func(record.Progress),
) (record.Report, error) {
	plan, began := r.current(), time.Now()
	var last record.Progress
	var wrong error
	runCtx, stop := context.WithCancel(ctx)
	defer stop()
	report, err := r.Control.Run(runCtx, spec, started, func(p record.Progress) {
		if wrong == nil {
			if wrong = checkProgress(&plan, &last, &p, time.Since(began)); wrong != nil {
				stop()
				return
			}
			last = p
			progress(p)
		}
	})
	if wrong != nil {
		return record.Report{}, wrong
	}
	w := window{plan: &plan, spec: &spec, took: time.Since(began), failed: err != nil}
	invalid := w.check(&report)
	switch {
	case invalid == nil:
		return report, err
	case err != nil:
		return record.Report{}, err
	}
	return record.Report{}, invalid
}
