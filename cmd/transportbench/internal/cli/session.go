package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/plugin/host"
	"transportbench/core/plugin/launch"
	"transportbench/core/transport"
)

// session is a command that makes runs.
type session struct {
	*app
	settings  *options.Settings
	stateOnly bool               // as in experiment.Beside
	bare      bool               // as in experiment.Beside
	cluster   *launch.Cluster    // nil to run on this host
	engine    *experiment.Engine // once prepared made it
	results   []*result.Result
	paths     []string // of the results' files
	missing   []missing
	tables    func(*set.Set) // writes those of a sweep
	trace     *traceFile     // of run
}

// missing is a run without a result, or one that failed.
type missing struct {
	transport string
	err       error
	// harmless means that the user asked for all transports, and this one is
	// unavailable.
	harmless bool
	// recorded means that there is a result of the failed run.
	recorded bool
}

// newSession checks what can be checked before anything starts.
func (a *app) newSession(settings *options.Settings) (*session, error) {
	s := &session{app: a, settings: settings}
	return s, s.begin()
}

// begin checks the directory for results, and reads what there is to know of this host.
func (s *session) begin() error {
	if err := result.CheckWritable(s.settings.Out); err != nil {
		return &config.SourceError{Problem: err.Error(), Err: err}
	}
	if err := s.prepared().ReadMachine(); err != nil {
		return err
	}
	if err := host.CheckTemp(); err != nil {
		return usagef("%s", oneLine(err))
	}
	return nil
}

// prepared returns the engine of the session.
func (s *session) prepared() *experiment.Engine {
	if s.engine == nil {
		s.engine = &experiment.Engine{
			Make: s.run, Find: s.findPlugin, Argv: append([]string{"transportbench"}, s.args...),
			Began:  s.began,
			Beside: s.beside(), AllowMixed: s.settings.AllowMixed,
			StartTimeout: s.settings.StartTimeout,
			Note:         func(text string) { s.note("%s", text) }, Log: s.stderr,
		}
	}
	s.engine.Dir = s.settings.Out
	if c := s.cluster; c != nil && s.engine.Place == nil {
		s.engine.Place, s.engine.Environment = s.place, c.Environment(nil)
	}
	return s.engine
}

// place puts the ranks of a run on the hosts.
func (s *session) place(req *runner.Request) error {
	if req.Began.Equal(s.began) {
		req.Steps = s.cluster.Steps()
	}
	return s.cluster.Place(req)
}

// findPlugin finds the plugin of a transport for the engine.
func (s *session) findPlugin(ctx context.Context, transport string) (*experiment.Plugin, error) {
	e, err := s.findArgument(ctx, s.settings.PluginDir, transport)
	if err != nil {
		return nil, err
	}
	return s.plugin(e)
}

// plugin returns an entry as the engine sees it.
func (s *session) plugin(e *entry) (*experiment.Plugin, error) {
	p := e.known()
	p.Launcher = func(log io.Writer, mixed bool) (experiment.Launcher, error) {
		return s.launcher(e, log, mixed)
	}
	p.Micro = e.Micro
	var err error
	p.Identity.SHA256, err = e.SHA256()
	return p, err
}

// pluginsOf returns the plugins that a spec names: those of dir, unless that is nil.
func (s *session) pluginsOf(ctx context.Context, spec *experiment.Spec,
	dir *string) (experiment.Plugins, error) {
	return experiment.PluginsOf(spec, func(names []string) ([]*experiment.Plugin, error) {
		find := func() ([]*entry, error) { return s.find(ctx, s.settings.PluginDir, names) }
		if dir != nil {
			find = func() ([]*entry, error) { return findIn(ctx, *dir, names) }
		}
		entries, err := s.onHosts(ctx)(find())
		plugins := make([]*experiment.Plugin, len(entries))
		for i, e := range entries {
			if err == nil {
				plugins[i], err = s.plugin(e)
			}
		}
		return plugins, err
	})
}

// selected returns the transports that the settings name and that can run, and
// their own options, checked. It records the others as missing.
func (s *session) selected(ctx context.Context) ([]*entry, map[string]map[string]string, error) {
	entries, err := s.onHosts(ctx)(s.find(ctx, s.settings.PluginDir, s.settings.Transports))
	if err != nil {
		return nil, nil, s.settings.Explain(err)
	}
	var usable []*entry
	for _, e := range entries {
		if err := e.known().Problem(); err != nil {
			s.fail(e.Name, err, false)
			continue
		}
		usable = append(usable, e)
	}
	switch {
	case len(usable) == 0 && len(entries) == 1:
		return nil, nil, s.missing[0].err
	case len(usable) == 0:
		return nil, nil, fmt.Errorf("none of %d transports can run here; see %s plugins list",
			len(entries), s.program)
	}
	set, err := checkSet(usable, s.settings.Set, s.settings.Config.Track)
	if err != nil {
		return nil, nil, s.settings.Explain(err)
	}
	return usable, set, nil
}

// fail records a run that failed; recorded means that it has a result.
func (s *session) fail(name string, err error, recorded bool) {
	harmless := s.settings.Transports[0] == options.All && errors.Is(err, transport.ErrUnavailable)
	s.missing = append(s.missing, missing{transport: name, err: err, harmless: harmless,
		recorded: recorded})
}

// missingCells returns the runs without a result.
func (s *session) missingCells() []set.Cell {
	var list []set.Cell
	for _, m := range s.missing {
		if m.recorded {
			continue
		}
		status := set.Failed
		if m.harmless || errors.Is(m.err, transport.ErrUnavailable) {
			status = set.Unavailable
		}
		list = append(list, set.Cell{Config: map[string]string{"transport": m.transport},
			Status: status, Reason: strings.TrimPrefix(oneLine(m.err), m.transport+
				": unavailable: "), Environment: -1})
	}
	return list
}

// runAll runs the selected transports. An interrupt ends it early, and is
// returned separately because complete results remain.
func (s *session) runAll(ctx context.Context) (interrupted, err error) {
	entries, set, err := s.selected(ctx)
	if err != nil {
		return nil, err
	}
	var jobs []experiment.Job
	for _, e := range entries {
		c := s.settings.Config
		c.Transport, c.Options = e.Name, set[e.Name]
		p, err := s.plugin(e)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, experiment.Job{Plugin: p, Config: c, Trace: s.trace.of(e.Name)})
	}
	if err := s.checkLength(jobs); err != nil {
		return nil, err
	}
	if err := s.trace.check(entries, s.settings.Transports[0] != options.All); err != nil {
		return nil, err
	}
	all, interrupted := s.engine.All(ctx, jobs, func(i int) experiment.Screen {
		label := entries[i].Name + " " + jobs[i].Config.Profile
		if len(jobs) > 1 {
			label = fmt.Sprintf("[%d/%d] %s", i+1, len(jobs), label)
		}
		return terminal.NewProgress(s.stderr, label)
	})
	for _, done := range all {
		if done.Result != nil {
			s.results, s.paths = append(s.results, done.Result), append(s.paths, done.Path)
		}
		if done.Err != nil {
			s.fail(done.Job.Config.Transport, s.settings.Explain(done.Err), done.Result != nil)
		}
	}
	return interrupted, nil
}

// beside returns what a run measures beside its windows.
func (s *session) beside() experiment.Beside {
	return experiment.Beside{StateOnly: s.stateOnly, Bare: s.bare, Witness: s.settings.Witness}
}

// longRun is the time from which a run is announced with its time and size.
const longRun = 10 * time.Minute

// checkLength checks that the results fit the disk, and says how long a long run takes.
func (s *session) checkLength(jobs []experiment.Job) error {
	size := experiment.Size(jobs)
	if err := s.checkRoom(size); err != nil {
		return err
	}
	if lasts := s.engine.Expected(jobs); lasts >= longRun {
		s.note("this takes about %s and writes up to %d KiB; use fewer --repeats or a shorter "+
			"--duration for less. Ctrl-C keeps the complete repeats",
			format.Left(lasts), size>>10)
	}
	return nil
}

// checkRoom returns an error if results of that many bytes do not fit the disk.
func (s *session) checkRoom(size int64) error {
	if err := result.CheckRoom(s.settings.Out, size); err != nil {
		return &config.SourceError{Problem: err.Error(), Err: err}
	}
	return nil
}

// outcome returns the error of the session: failed runs first, then results
// that must not be used.
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
			return exitf(ExitThreshold, "%s %s failed a check: do not use its numbers",
				r.Plugin.Name, r.Config.Profile)
		}
	}
	return nil
}

// launcher returns a launcher for a plugin, on this host or the others. Plugins log to w. mixed
// allows another version of the runtime.
func (s *session) launcher(e *entry, w io.Writer, mixed bool) (experiment.Launcher, error) {
	o := launch.Options{Log: w, Verbose: s.verbose, AllowMixed: mixed,
		StartTimeout: s.settings.StartTimeout}
	if s.cluster != nil {
		return s.cluster.Launcher(e.Plugin, o)
	}
	return launch.Here(e.Plugin, o)
}
