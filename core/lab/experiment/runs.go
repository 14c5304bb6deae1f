package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/experiment/sweep"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Job is one of several runs.
type Job struct {
	Plugin *Plugin
	Config config.Config
	Trace  func([]record.ThreadTrace) // as in [runner.Request]
}

// Done is what became of a job.
type Done struct {
	Job    *Job
	Result *result.Result // nil if there is none
	Path   string         // of the result's file
	Err    error          // why the run failed
}

// Size returns about how many bytes the results of jobs take while they are made.
func Size(jobs []Job) int64 {
	var size, again int64
	for i := range jobs {
		c := &jobs[i].Config
		needs := runner.ResultSize(c, c.Repeats)
		size += needs
		if c.Repeats > 1 { // the result so far stays until the next one is written
			again = max(again, needs)
		}
	}
	return size + again
}

// Expected returns about how long jobs take.
func (e *Engine) Expected(jobs []Job) (total time.Duration) {
	for i := range jobs {
		total += runner.Expected(jobs[i].Config, e.Beside)
	}
	return total
}

// CheckRoom returns an error if results of that many bytes do not fit the disk.
func (e *Engine) CheckRoom(size int64) error { return result.CheckRoom(e.Dir, size) }

// Screen shows one run: its progress, and what its plugins log.
type Screen interface {
	io.Writer
	runner.Observer
	Close()
}

// All makes runs one after the other and stores their results. screen returns what shows the i-th. If ctx ends
// or a result cannot be stored, All returns what is done with the error. After the loss of a host it makes no
// more runs.
func (e *Engine) All(ctx context.Context, jobs []Job, screen func(i int) Screen) (all []Done, err error) {
	for i := range jobs {
		began := time.Now()
		if i == 0 {
			began = e.Began
		}
		file := &result.Growing{Dir: e.Dir}
		done := Done{Job: &jobs[i]}
		done.Result, done.Err = e.one(ctx, &jobs[i], began, file, screen(i))
		if done.Result != nil {
			if done.Path, err = file.Store(done.Result); err != nil {
				return all, err
			}
		}
		if ctx.Err() != nil {
			done.Err = nil
			return append(all, done), ctx.Err()
		}
		all = append(all, done)
		if left := len(jobs) - i - 1; errors.Is(done.Err, hosts.ErrLost) && left > 0 {
			e.Note(fmt.Sprintf("a host is lost, so %s did not run", format.Count(left, "transport")))
			break
		}
	}
	return all, nil
}

// one makes a run and keeps its repeats in file as they are complete.
func (e *Engine) one(ctx context.Context, j *Job, began time.Time, file *result.Growing, s Screen) (*result.Result, error) {
	defer s.Close()
	l, err := j.Plugin.Launcher(s, e.AllowMixed)
	if err != nil {
		return nil, err
	}
	return e.Run(ctx, Run{Plugin: j.Plugin, Config: j.Config, Began: began, Launcher: l, Keep: file.Keep, Trace: j.Trace}, s)
}

// Plugins are the plugins of an experiment by the name of their transport.
type Plugins map[string]*Plugin

// Measure returns what makes runs with one repeat, with plugins that log to log. mixed allows plugins of another
// version of the runtime.
func (e *Engine) Measure(plugins Plugins, log io.Writer, mixed bool) (sweep.Measure, error) {
	launchers := map[string]runner.Launcher{}
	for name, p := range plugins {
		l, err := p.Launcher(log, mixed || e.AllowMixed)
		if err != nil {
			return nil, err
		}
		launchers[name] = l
	}
	return func(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error) {
		return e.Run(ctx, Run{Plugin: plugins[c.Transport], Config: c, Launcher: launchers[c.Transport]}, obs)
	}, nil
}

// Sweep measures a plan as [sweep.Run] does, with o but for what the engine knows. Plugins log to log. The
// loss of a host ends it early.
func (e *Engine) Sweep(ctx context.Context, plan *sweep.Plan, plugins Plugins, o sweep.Options, log io.Writer) (*sweep.Outcome, error) {
	measure, err := e.Measure(plugins, log, false)
	if err != nil {
		return nil, err
	}
	o.Origin = sweep.Origin{Plugins: map[string]string{}}
	for name, p := range plugins {
		o.Origin.Plugins[name] = p.Identity.SHA256
	}
	if o.Origin.Machine, err = set.Flatten(e.Environment.Identity); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	o.Measure, o.Beside = endOnLoss(measure, end), e.Beside
	outcome, interrupted := sweep.Run(ctx, plan, o)
	return outcome, endOf(ctx, interrupted)
}

// Side is one side of a pair. The sides of a comparison of builds have different plugins.
type Side struct {
	Plugins Plugins
	Config  config.Config
	// Mixed allows plugins of another version of the runtime.
	Mixed bool
}

// Pair makes a paired test of two sides and stores the result of each. Plugins log to log. If it is interrupted after
// the first round, or a host is lost, it returns the outcome so far with the error.
func (e *Engine) Pair(ctx context.Context, t *sweep.PairedTest, a, b Side, log io.Writer) (*sweep.PairedResult, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var files [2]result.Growing
	for i, side := range [2]Side{a, b} {
		measure, err := e.Measure(side.Plugins, log, side.Mixed)
		if err != nil {
			return nil, err
		}
		files[i].Dir = e.Dir
		*[2]*sweep.Side{&t.A, &t.B}[i] = sweep.Side{Config: side.Config, Measure: endOnLoss(measure, end), Keep: files[i].Keep}
	}
	outcome, interrupted := t.Run(ctx)
	if outcome != nil {
		for i, r := range [2]*result.Result{outcome.A, outcome.B} {
			if _, err := files[i].Store(r); err != nil {
				return nil, err
			}
		}
	}
	return outcome, endOf(ctx, interrupted)
}

// endOnLoss returns a measure that ends the context by its cause once a host is lost.
func endOnLoss(measure sweep.Measure, end context.CancelCauseFunc) sweep.Measure {
	return func(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error) {
		r, err := measure(ctx, c, obs)
		if errors.Is(err, hosts.ErrLost) {
			end(err)
		}
		return r, err
	}
}

// endOf returns why such measures ended, if interrupted is the end of their context.
func endOf(ctx context.Context, interrupted error) error {
	if cause := context.Cause(ctx); interrupted != nil && errors.Is(cause, hosts.ErrLost) {
		return cause
	}
	return interrupted
}
