package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// Runs returns a run of c for each plugin, with the options in set that its transport has. An
// option that none of the transports has is an error.
func Runs(plugins []*Plugin, c config.Config, set map[string]string) (runs []Run, err error) {
	var known []string
	for _, p := range plugins {
		own := map[string]string{}
		for _, o := range p.Info.Options {
			known = append(known, o.Name)
			if value, has := set[o.Name]; has {
				own[o.Name] = value
			}
		}
		c.Transport = p.Identity.Name
		if c.Options, err = p.complete(own, c.Track); err != nil {
			return nil, err
		}
		runs = append(runs, Run{Plugin: p, Config: c})
	}
	for name := range set {
		if !slices.Contains(known, name) {
			return nil, &transport.OptionError{Option: name, Problem: "unknown" +
				suggest.For(name, known)}
		}
	}
	return runs, nil
}

// CheckHosts returns an error for a host's option that no plugin has, or whose value is wrong. Each
// plugin gets the options that it has.
func CheckHosts(plugins []*Plugin, list []hosts.OwnOptions) error {
	if slices.ContainsFunc(plugins, func(p *Plugin) bool { return p.Err != nil }) {
		return nil // which options that one has is not known
	}
	for _, host := range list {
		if _, err := Runs(plugins, config.Default(), host.Options); err != nil {
			return &config.SourceError{Problem: fmt.Sprintf("host %s: %v", host.Host, err)}
		}
	}
	return nil
}

// Done is what became of a run.
type Done struct {
	Transport string
	Result    *result.Result // nil if there is none
	Path      string         // of the result's file
	Err       error          // why the run failed
}

// Expected returns about how long runs take, without those that the machine refuses.
func (e *Engine) Expected(runs []Run) (total time.Duration) {
	for _, run := range runs {
		if req, err := e.request(run); err == nil && runner.Check(req) == nil {
			total += runner.Expected(run.Config, &run.Plugin.Info, e.Beside)
		}
	}
	return total
}

// ExpectedReadings returns about how long a microbenchmark takes that reads for a time, with a
// process of its own, or one on each of two hosts, for each repeat.
func ExpectedReadings(repeats int, reads time.Duration) time.Duration {
	return time.Duration(repeats) * (runner.Start + reads)
}

// Screen shows one run: its progress, and what its plugins log.
type Screen interface {
	io.Writer
	runner.Observer
	Close()
}

// All makes runs one after the other and stores their results. screen returns what shows the i-th.
// If ctx ends or a result cannot be stored, All returns what is done with the error. After the loss
// of a host it makes no more runs.
func (e *Engine) All(ctx context.Context, runs []Run, screen func(i int) Screen) (all []Done,
	err error) {
	for i, run := range runs {
		if run.Began = time.Now(); i == 0 {
			run.Began = e.Began
		}
		file := &result.Growing{Dir: e.Dir}
		run.Keep = file.Keep
		done := Done{Transport: run.Config.Transport}
		done.Result, done.Err = e.one(ctx, run, screen(i))
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
		if left := len(runs) - i - 1; errors.Is(done.Err, hosts.ErrLost) && left > 0 {
			e.Note(fmt.Sprintf("a host is lost, so %s did not run",
				format.Count(left, "transport")))
			break
		}
	}
	return all, nil
}

func (e *Engine) one(ctx context.Context, run Run, s Screen) (r *result.Result, err error) {
	defer s.Close()
	if run.Launcher, err = run.Plugin.Launcher(s, e.AllowMixed); err != nil {
		return nil, err
	}
	return e.Run(ctx, run, s)
}

// Measure returns what makes runs with one repeat, with plugins that log to log. mixed allows
// plugins of another version of the runtime.
func (e *Engine) Measure(plugins Plugins, log io.Writer, mixed bool) (Measure, error) {
	launchers := map[string]runner.Launcher{}
	for name, p := range plugins {
		l, err := p.Launcher(log, mixed || e.AllowMixed)
		if err != nil {
			return nil, err
		}
		launchers[name] = l
	}
	return func(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error) {
		return e.Run(ctx, Run{Plugin: plugins[c.Transport], Config: c,
			Launcher: launchers[c.Transport]}, obs)
	}, nil
}

// endOnLoss returns a measure that ends the context by its cause once a host is lost.
func endOnLoss(measure Measure, end context.CancelCauseFunc) Measure {
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
