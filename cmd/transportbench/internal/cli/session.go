package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core"
	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/network"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/plugin"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

// session makes runs one after the other and keeps their results.
type session struct {
	*app
	settings    *options.Settings
	stateOnly   bool          // as in runner.Request
	bare        bool          // as in runner.Request
	cluster     *cluster      // nil to run on this host
	cpus        []machine.CPU // that this process may use
	environment machine.Environment
	limits      machine.Limits
	results     []*result.Result
	paths       []string // of the results' files
	missing     []missing
	said        []string       // what noteOnce has said
	tables      func(*set.Set) // writes those of a sweep
	trace       *traceFile     // of run
}

// job is one run to make.
type job struct {
	entry  *entry
	config config.Config
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

// begin checks the directory for results, and reads the environment and the
// processors that this process may use.
func (s *session) begin() error {
	if err := result.CheckWritable(s.settings.Out); err != nil {
		return &options.Error{Problem: err.Error(), Err: err}
	}
	var err error
	if s.cpus, err = machine.AllowedTopology(); err != nil {
		return err
	}
	if s.environment = machine.ReadEnvironment(); s.cluster != nil {
		s.environment = s.cluster.environment(nil)
	}
	s.limits = machine.ReadLimits()
	if err := runner.CheckStart(s.limits); err != nil {
		return err
	}
	if err := host.CheckTemp(); err != nil {
		return usagef("%s", oneLine(err))
	}
	return nil
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
		if err := e.problem(); err != nil {
			s.fail(e.Name, err, false)
			continue
		}
		usable = append(usable, e)
	}
	switch {
	case len(usable) == 0 && len(entries) == 1:
		return nil, nil, s.missing[0].err
	case len(usable) == 0:
		return nil, nil, fmt.Errorf("none of %d transports can run here; see %s plugins list", len(entries), s.program)
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
	s.missing = append(s.missing, missing{transport: name, err: err, harmless: harmless, recorded: recorded})
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
		list = append(list, set.Cell{Config: map[string]string{"transport": m.transport}, Status: status, Reason: strings.TrimPrefix(oneLine(m.err), m.transport+": unavailable: "), Environment: -1})
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
	var jobs []job
	for _, e := range entries {
		c := s.settings.Config
		c.Transport, c.Options = e.Name, set[e.Name]
		jobs = append(jobs, job{e, c})
	}
	if err := s.checkLength(jobs); err != nil {
		return nil, err
	}
	if err := s.trace.check(jobs, s.settings.Transports[0] != options.All); err != nil {
		return nil, err
	}
	for i, j := range jobs {
		label := j.entry.Name + " " + j.config.Profile
		if len(jobs) > 1 {
			label = fmt.Sprintf("[%d/%d] %s", i+1, len(jobs), label)
		}
		began := time.Now()
		if i == 0 {
			began = s.began
		}
		file := &result.Growing{Dir: s.settings.Out}
		r, err := s.runOne(ctx, j, label, began, file)
		if r != nil {
			path, err := file.Store(r)
			if err != nil {
				return err, nil
			}
			s.results, s.paths = append(s.results, r), append(s.paths, path)
		}
		if ctx.Err() != nil {
			return ctx.Err(), nil
		}
		if err != nil {
			s.fail(j.entry.Name, s.settings.Explain(err), r != nil)
		}
		if left := len(jobs) - i - 1; isLoss(err) && left > 0 {
			s.note("a host is lost, so %s did not run", format.Count(left, "transport"))
			break
		}
	}
	return nil, nil
}

// beside returns what a run measures beside its windows.
func (s *session) beside() runner.Beside {
	return runner.Beside{StateOnly: s.stateOnly, Bare: s.bare, Witness: s.settings.Witness}
}

// longRun is the time from which a run is announced with its time and size.
const longRun = 10 * time.Minute

// checkLength checks that the results fit the disk, and says how long a long run takes.
func (s *session) checkLength(jobs []job) error {
	var size, again int64
	var lasts time.Duration
	for _, j := range jobs {
		needs := runner.ResultSize(&j.config, j.config.Repeats)
		size += needs
		if j.config.Repeats > 1 { // the result so far stays until the next one is written
			again = max(again, needs)
		}
		lasts += runner.Expected(j.config, s.beside())
	}
	if err := s.checkRoom(size + again); err != nil {
		return err
	}
	if lasts >= longRun {
		s.note("this takes about %s and writes up to %d KiB; use fewer --repeats or a shorter --duration for less. Ctrl-C keeps the complete repeats",
			present.Left(lasts), size>>10)
	}
	return nil
}

// checkRoom returns an error if results of that many bytes do not fit the disk.
func (s *session) checkRoom(size int64) error {
	if err := result.CheckRoom(s.settings.Out, size); err != nil {
		return &options.Error{Problem: err.Error(), Err: err}
	}
	return nil
}

// runOne makes a run and keeps its repeats in file as they are complete.
func (s *session) runOne(ctx context.Context, j job, label string, began time.Time, file *result.Growing) (*result.Result, error) {
	progress := present.NewProgress(s.stderr, label)
	defer progress.Close()
	l, err := s.launcherFor(j.entry, progress, s.settings.AllowMixed)
	if err != nil {
		return nil, err
	}
	req, err := s.request(j, l, began)
	if err != nil {
		return nil, err
	}
	req.Keep = file.Keep
	return s.measure(ctx, req, progress)
}

// measure makes a run, and says once for each transport why its witness is missing.
func (s *session) measure(ctx context.Context, req runner.Request, obs runner.Observer) (*result.Result, error) {
	r, err := s.run(ctx, req, obs)
	if r != nil && r.Witness != nil && r.Witness.Missing != "" {
		s.noteOnce(r.Plugin.Name + ": no witness: " + r.Witness.Missing)
	}
	return r, err
}

// noteOnce is note for what holds for several runs of the session.
func (s *session) noteOnce(text string) {
	if !slices.Contains(s.said, text) {
		s.said = append(s.said, text)
		s.note("%s", text)
	}
}

// request returns what the runner needs for a job.
func (s *session) request(j job, l runner.Launcher, began time.Time) (runner.Request, error) {
	sum, err := j.entry.SHA256()
	if err != nil {
		return runner.Request{}, err
	}
	info := j.entry.description.Info
	req := runner.Request{
		Config:   j.config,
		CPUs:     s.cpus,
		Launcher: l,
		Began:    began,
		Argv:     append([]string{"transportbench"}, s.args...),
		Tool:     result.Tool{Version: core.Version, Revision: core.BuildRevision(), Go: runtime.Version()},
		Plugin: result.Plugin{
			Name: info.Name, Version: info.Version, SHA256: sum, Matched: info.Matched,
			RuntimeDigest: j.entry.description.RuntimeDigest,
		},
		Environment:  s.environment,
		Capabilities: info.Capabilities, Limits: info.Limits, Needs: info.Needs, System: s.limits,
		OneProbe: !j.entry.description.ProbeKinds,
		Beside:   s.beside(),

		StartTimeout: s.settings.StartTimeout, Trace: s.trace.of(info.Name),
	}
	if err := s.impair(&req, info); err != nil {
		return req, err
	}
	if s.cluster != nil && began.Equal(s.began) {
		req.Steps = s.cluster.steps
	}
	return req, s.cluster.place(&req)
}

// impair gives a run its network, if it asks for one. Transports with an option for their address use
// the one that they have there unless the user has set another, and each datagram is a packet. Where this user may not make networks,
// a transport with faults of its own imitates it.
func (s *session) impair(req *runner.Request, info transport.Info) error {
	c := &req.Config
	if c.Network == "" {
		return nil
	}
	own, here := req.Launcher.(*launcher)
	switch {
	case !here || len(own.attached) > 0:
		return usagef("--network: it joins ranks that this command starts on this host; leave out the hosts or %s", plugin.EnvReattach)
	case req.Witness:
		return usagef("--network: a witness would not pass it; leave out --witness")
	}
	mechanism, err := networkMechanism()
	switch {
	case err != nil && imitatesNetworks(info):
		faults, err := faultsOf(c.Network.Impairments(), err)
		if err != nil {
			return err
		}
		c.Options = maps.Clone(c.Options)
		maps.Copy(c.Options, faults)
		s.noteOnce(fmt.Sprintf("%s drops, delays and reorders its datagrams itself, as --network %s asks: this user may not make networks", info.Name, c.Network))
		req.ImpairedBy = result.Imitated
		return nil
	case err != nil:
		return err
	}
	n := network.New(mechanism, c.Network.Impairments(), c.Seed)
	req.ImpairedBy = mechanism
	impaired := *own
	impaired.network = n
	req.Launcher, req.Network = &impaired, n
	c.Options = maps.Clone(c.Options)
	if strings.HasPrefix(c.Options["address"], "127.") {
		c.Options["address"] = network.Prefix
	}
	// The kernel would impair datagrams that it gets as one as if they were one packet.
	if c.Options["offload"] == "auto" {
		c.Options["offload"] = "off"
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
			return exitf(ExitThreshold, "%s %s failed a check: do not use its numbers", r.Plugin.Name, r.Config.Profile)
		}
	}
	return nil
}

// launcher starts the ranks of one transport on this machine, or connects to
// ranks that run in a debugger.
type launcher struct {
	plugin   *host.Plugin
	options  host.LaunchOptions
	attached []plugin.Reattach // by rank; empty to start the ranks
	network  *network.Network  // nil for that of this host
}

// launcherFor returns a launcher for a plugin, on this host or the others. Plugins log to w: errors, and
// with verbose all but debug messages. mixed allows another version of the runtime.
func (s *session) launcherFor(e *entry, w io.Writer, mixed bool) (runner.Launcher, error) {
	if s.cluster != nil {
		l, err := s.cluster.launcher(s, e)
		if err == nil {
			l.options.AllowMixedRuntime = mixed || s.settings.AllowMixed
		}
		return l, err
	}
	l, err := s.newLauncher(e.Plugin, w)
	if err == nil {
		l.options.AllowMixedRuntime = mixed || s.settings.AllowMixed
	}
	return l, err
}

// newLauncher returns a launcher for this host.
func (s *session) newLauncher(p *host.Plugin, w io.Writer) (*launcher, error) {
	logger := slog.New(slog.NewTextHandler(w, s.logOptions()))
	l := &launcher{plugin: p, options: host.LaunchOptions{
		Logger: logger, AllowMixedRuntime: s.settings.AllowMixed, StartTimeout: s.settings.StartTimeout,
	}}
	all, err := host.Reattachments()
	for _, r := range all {
		if r.Transport == p.Name {
			l.attached = append(l.attached, r)
		}
	}
	return l, err
}

// logOptions selects the plugin log lines to show: errors, shortened; with -v, all but debug messages.
func (a *app) logOptions() *slog.HandlerOptions {
	if a.verbose {
		return &slog.HandlerOptions{Level: slog.LevelInfo}
	}
	return &slog.HandlerOptions{Level: slog.LevelError, ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Value.Kind() == slog.KindString {
			attr.Value = slog.StringValue(record.Cut(attr.Value.String()))
		}
		return attr
	}}
}

// Launch implements [runner.Launcher].
func (l *launcher) Launch(ctx context.Context, rank int) (runner.Process, error) {
	var (
		p   *host.Process
		err error
	)
	switch {
	case len(l.attached) == 0:
		options := l.options
		if l.network != nil {
			options.Space = l.network.Space(rank)
		}
		p, err = l.plugin.Launch(ctx, options)
	case rank < len(l.attached):
		p, err = host.Attach(ctx, l.attached[rank], l.options)
	default:
		err = fmt.Errorf("%s: %d plugins of %s for more ranks; add the others or unset it",
			plugin.EnvReattach, len(l.attached), l.plugin.Name)
	}
	if err != nil {
		return nil, err
	}
	return process{p, l.options.Logger}, nil
}

// process logs Kill errors instead of returning them.
type process struct {
	*host.Process
	logger *slog.Logger
}

// Kill implements [runner.Process].
func (p process) Kill() {
	if err := p.Process.Kill(); err != nil {
		p.logger.Error("kill plugin", "error", err)
	}
}
