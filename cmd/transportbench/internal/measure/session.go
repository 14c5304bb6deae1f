package measure

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/agents"
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/catalog"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/printable"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/plugin/host"
	"transportbench/core/plugin/launch"
)

// session is a command that measures.
type session struct {
	*app.App
	settings *options.Settings
	engine   *experiment.Engine
	cluster  *launch.Cluster // nil to run on this host
	// own are the options of transports that differ on a host. They are also known of a run that is
	// only planned.
	own []hosts.OwnOptions
}

// open resolves flags and returns a session that has started nothing. defaults and fixed are as in
// [options.Resolve].
func open(a *app.App, cmd *cobra.Command, flags *pflag.FlagSet, defaults, fixed map[string]string) (
	*session, error) {
	settings, err := a.Settings(cmd, flags, defaults, fixed)
	if err != nil {
		return nil, err
	}
	s := &session{App: a, settings: settings}
	s.engine = &experiment.Engine{
		Make: s.Run, Find: s.findPlugin, Argv: append([]string{"transportbench"}, s.Args...),
		Began: s.Began,
		Dir:   settings.Out, Beside: experiment.Beside{Witness: settings.Witness},
		AllowMixed: settings.AllowMixed, StartTimeout: settings.StartTimeout,
		Traces: options.Traces,
		Note:   func(text string) { s.Note("%s", text) }, Log: s.Stderr,
	}
	return s, nil
}

// openSweep is open for a command that reads what is measured as a sweep. Results go to out below
// the default directory unless the user chooses another one; if out is empty, the caller chooses.
func openSweep(a *app.App, cmd *cobra.Command, out string) (*session, error) {
	if out != "" {
		out = filepath.Join(options.DefaultOut, out)
	}
	return open(a, cmd, options.WithoutRun(cmd.Flags()), map[string]string{options.KeyOut: out},
		nil)
}

// join waits for the hosts of the run, if the settings ask for any.
func (s *session) join(ctx context.Context) (err error) {
	if s.cluster, err = agents.Join(ctx, s.App, s.settings); s.cluster != nil {
		s.engine.Place, s.engine.Environment = s.place, s.cluster.Environment(nil)
		s.own = s.cluster.OwnOptions()
	}
	return err
}

// leave ends what join started.
func (s *session) leave() { s.cluster.Close() }

// place puts the ranks of a run on the hosts.
func (s *session) place(req *runner.Request) error {
	if req.Began.Equal(s.Began) {
		req.Steps = s.cluster.Steps()
	}
	return s.cluster.Place(req)
}

// check checks that results can be written and that this host can start ranks, and reads what there
// is to know of it. Commands that know their directory check before other hosts join.
func (s *session) check() error {
	s.engine.Dir = s.settings.Out
	if err := result.CheckWritable(s.engine.Dir); err != nil {
		return &config.SourceError{Problem: err.Error(), Err: err}
	}
	if err := s.engine.ReadMachine(); err != nil {
		return err
	}
	if err := host.CheckTemp(); err != nil {
		return app.Usagef("%s", printable.Joined(err))
	}
	return nil
}

// busy returns what to add to an expected time if other programs use half of the processors: the
// measurement then takes longer.
func busy(e *machine.Environment) string {
	load, _ := e.Volatile.Load()
	if cpus := e.Identity.CPUs; load > float64(cpus)/2 {
		return fmt.Sprintf("; load %.2g on %s: this takes longer, and results will be disturbed",
			load, format.Count(cpus, "processor"))
	}
	return ""
}

// findPlugin finds the plugin of a transport for the engine.
func (s *session) findPlugin(ctx context.Context, transport string) (*experiment.Plugin, error) {
	e, err := catalog.FindOne(ctx, s.settings.PluginDir, transport)
	if err != nil {
		return nil, err
	}
	return s.plugin(e)
}

// plugin returns an entry as the engine sees it.
func (s *session) plugin(e *catalog.Entry) (*experiment.Plugin, error) {
	p := e.Known()
	p.Launcher = func(log io.Writer, mixed bool) (experiment.Launcher, error) {
		o := launch.Options{Log: log, Verbose: s.Verbose, AllowMixed: mixed,
			StartTimeout: s.settings.StartTimeout}
		if s.cluster != nil {
			return s.cluster.Launcher(e.Plugin, o)
		}
		return launch.Here(e.Plugin, o)
	}
	p.Micro = e.Micro
	var err error
	p.Identity.SHA256, err = e.SHA256()
	return p, err
}

// plugins returns the plugins of the named transports as they are on the hosts of the run: those in
// dir, unless that is nil.
func (s *session) plugins(ctx context.Context, names []string, dir *string) ([]*experiment.Plugin,
	error) {
	var entries []*catalog.Entry
	var err error
	if dir != nil {
		entries, err = catalog.FindIn(ctx, *dir, names)
	} else {
		entries, err = catalog.Find(ctx, s.settings.PluginDir, names)
	}
	if err == nil {
		err = catalog.DescribeOn(ctx, s.cluster, entries)
	}
	plugins := make([]*experiment.Plugin, len(entries))
	for i, e := range entries {
		if err == nil {
			plugins[i], err = s.plugin(e)
		}
	}
	if err == nil {
		err = experiment.CheckHosts(plugins, s.own)
	}
	return plugins, err
}

// plan plans a sweep with the plugins in dir, or those of the settings if that is nil. With all, a
// transport that cannot run here is an error.
func (s *session) plan(ctx context.Context, spec *experiment.Spec, dir *string, all bool) (
	experiment.Sweep, error) {
	plugins, err := s.plugins(ctx, spec.Transports(), dir)
	if err != nil {
		return experiment.Sweep{}, err
	}
	sweep, err := experiment.NewSweep(spec, plugins, all)
	if err != nil {
		return sweep, explainSpec(err)
	}
	s.notes(sweep.Plan)
	return sweep, nil
}
