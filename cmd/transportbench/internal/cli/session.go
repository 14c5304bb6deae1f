package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core"
	"transportbench/core/base/config"
	"transportbench/core/lab/result"
	"transportbench/core/lab/runner"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

// job is one run to make.
type job struct {
	entry  *entry
	config config.Config
}

// session makes several runs, one after the other, and keeps what comes of
// them.
type session struct {
	*app
	settings *options.Settings
	machine  thisMachine
	results  []*result.Result
	paths    []string // of the results' files
	missing  []missing
	// fixedLoads: the command chose the loads, and a transport may be unable to
	// take one of them.
	fixedLoads bool
}

// missing is a run that has no result, or one that failed.
type missing struct {
	transport string
	profile   string // the load that the transport cannot take; empty is another reason
	err       error
	// harmless: the user asked for what can run, and this cannot.
	harmless bool
	// recorded: there is a result all the same, which says what failed.
	recorded bool
}

// newSession checks what can be checked before anything starts.
func (a *app) newSession(s *options.Settings) (*session, error) {
	if err := result.CheckWritable(s.Out); err != nil {
		return nil, &options.Error{Problem: err.Error(), Err: err}
	}
	m, err := readMachine()
	if err != nil {
		return nil, err
	}
	return &session{app: a, settings: s, machine: m}, nil
}

// selected returns the transports that the settings name and that can run, each
// with its own options checked. What cannot run is missing where the user asked
// for all, and a failure besides where he asked for it by name.
func (s *session) selected(ctx context.Context) ([]*entry, map[string]map[string]string, error) {
	all := s.settings.Transports[0] == options.All
	var (
		entries []*entry
		err     error
	)
	if all {
		entries, err = s.catalog(ctx, s.settings.PluginDir)
	} else {
		entries, err = s.find(ctx, s.settings.PluginDir, s.settings.Transports)
	}
	if err != nil {
		return nil, nil, s.settings.Explain(err)
	}
	var usable []*entry
	for _, e := range entries {
		if e.unavailable() == "" {
			usable = append(usable, e)
			continue
		}
		err := e.err
		if err == nil {
			err = fmt.Errorf("%s: %w", e.Name, transport.Unavailable("%s", e.description.Info.Unavailable))
		}
		s.fail(e.Name, err, false)
	}
	if len(usable) == 0 {
		return nil, nil, s.nothingRuns(entries)
	}
	set, err := checkSet(usable, s.settings.Set)
	if err != nil {
		return nil, nil, s.settings.Explain(err)
	}
	return usable, set, nil
}

func (s *session) nothingRuns(entries []*entry) error {
	switch len(entries) {
	case 0:
		return errors.New("there are no plugins; build them (make build), or name their directory with --plugin-dir")
	case 1:
		return s.missing[0].err
	default:
		return fmt.Errorf("none of %d transports can run here; see %s plugins list", len(entries), s.program)
	}
}

// fail notes a run that failed; recorded says that it has a result.
func (s *session) fail(name string, err error, recorded bool) {
	harmless := s.settings.Transports[0] == options.All && errors.Is(err, transport.ErrUnavailable)
	s.missing = append(s.missing, missing{transport: name, err: err, harmless: harmless, recorded: recorded})
}

// absent is what has no result, for the eye.
func (s *session) absent() []present.Missing {
	var list []present.Missing
	for _, m := range s.missing {
		if m.recorded {
			continue
		}
		shown := present.Missing{Transport: m.transport, Profile: m.profile, Reason: oneLine(m.err)}
		var limit *config.Error
		if m.profile != "" && errors.As(m.err, &limit) {
			shown.Reason, _, _ = strings.Cut(limit.Problem, "; use ") // the load is not the user's to change
		}
		list = append(list, shown)
	}
	return list
}

// runAll makes the runs and stops at an interrupt only.
func (s *session) runAll(ctx context.Context, jobs []job) error {
	for i, j := range jobs {
		label := j.entry.Name + " " + j.config.Profile
		if len(jobs) > 1 {
			label = fmt.Sprintf("[%d/%d] %s", i+1, len(jobs), label)
		}
		began := time.Now()
		if i == 0 {
			began = s.began
		}
		r, err := s.runOne(ctx, j, label, began)
		if r != nil {
			path, werr := result.Write(s.settings.Out, r)
			if werr != nil {
				return werr
			}
			s.results, s.paths = append(s.results, r), append(s.paths, path)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var limit *config.Error
		switch {
		case err == nil:
		case s.fixedLoads && errors.As(err, &limit):
			s.missing = append(s.missing, missing{transport: j.entry.Name, profile: j.config.Profile, err: s.settings.Explain(err), harmless: true})
		default:
			s.fail(j.entry.Name, s.settings.Explain(err), r != nil)
		}
	}
	return nil
}

func (s *session) runOne(ctx context.Context, j job, label string, began time.Time) (*result.Result, error) {
	progress := present.NewProgress(s.stderr, label)
	defer progress.Close()
	l, err := newLauncher(j.entry.Plugin, s.launchOptions(progress))
	if err != nil {
		return nil, err
	}
	req, err := s.request(j, l, began)
	if err != nil {
		return nil, err
	}
	return s.run(ctx, req, progress)
}

// launchOptions are those of every plugin; what it logs goes to w.
func (s *session) launchOptions(w io.Writer) host.LaunchOptions {
	return host.LaunchOptions{Logger: logger(w, s.verbose), AllowMixedRuntime: s.settings.AllowMixed}
}

// request is everything that the run of a job needs.
func (s *session) request(j job, l runner.Launcher, began time.Time) (runner.Request, error) {
	sum, err := j.entry.SHA256()
	if err != nil {
		return runner.Request{}, err
	}
	info := j.entry.description.Info
	return runner.Request{
		Config:   j.config,
		CPUs:     s.machine.cpus,
		Launcher: l,
		Began:    began,
		Argv:     append([]string{"transportbench"}, s.args...),
		Tool:     result.Tool{Version: core.Version, Revision: core.BuildRevision(), Go: runtime.Version()},
		Plugin: result.Plugin{
			Name: info.Name, Version: info.Version, SHA256: sum,
			RuntimeDigest: j.entry.description.RuntimeDigest,
		},
		Environment: s.machine.environment,
	}, nil
}

// outcome is what the session comes to, in the order of what matters most: what
// failed, then results that must not be used.
func (s *session) outcome() error {
	var failures []error
	for _, m := range s.missing {
		if !m.harmless {
			failures = append(failures, m.err)
		}
	}
	switch {
	case len(failures) == 1:
		return failures[0]
	case len(failures) > 1:
		return fmt.Errorf("%d runs failed; the first: %w", len(failures), failures[0])
	case len(s.results) == 0:
		return fmt.Errorf("nothing ran; the first reason: %w", s.missing[0].err)
	}
	for _, r := range s.results {
		if r.Failed() {
			return &distrustError{fmt.Sprintf("%s %s failed a check: do not use its numbers", r.Plugin.Name, r.Config.Profile)}
		}
	}
	return nil
}
