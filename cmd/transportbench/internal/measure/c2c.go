package measure

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/agents"
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/files"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/study/perf"
)

// profiled is the command c2c.
type profiled struct {
	*session
	perf  *perf.Perf
	dir   string         // of this process alone, in which perf writes
	saved *result.Result // whose run is repeated; nil with --run
	micro string         // the reading with --micro
}

func c2cCommand(a *app.App) *cobra.Command {
	run, micro := false, ""
	cmd := &cobra.Command{
		Use:               "c2c RESULT|--run|--micro READING",
		Short:             "Show which cache lines the threads of a run pass to each other",
		ValidArgsFunction: complete.Results,
		Long: `c2c repeats the run of a result, or makes the one that the flags of run describe, in two
windows, with Linux's perf attached to the ranks in the second. It shows the instructions
per cycle and the cache misses of each thread that polls, and the loads that another
processor's modified cache line answered (HITM): how many, of which lines, and in which
functions of which threads.

perf slows the run, so no result of it is written. With --out, the figures of perf c2c are
kept as a cell that diff, report and reproduce read. --micro takes one reading of a
transport's microbenchmarks, under perf c2c alone. c2c needs a processor that counts
events, which virtual machines often hide, and perf.

` + app.ExitHelp,
		Example: `  transportbench c2c results/local/shm-kv-20260101T000000Z-0123abcd.json
  transportbench c2c --run --transport shm --in-flight 32 --clients 4
  transportbench c2c --micro spsc/fastforward/stream/threads --transport shm --duration 5s`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := newProfiled(a, cmd, run, micro, args)
			if err != nil {
				return err
			}
			if p.perf, err = a.Perf(); err != nil {
				return fmt.Errorf("c2c: %w", err)
			}
			return p.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	options.AddRun(flags, nil, "repeats", "launches")
	options.AddJSON(flags)
	flags.StringVar(&micro, "micro", "",
		"a reading of a microbenchmark, by its name in micro, instead of a run")
	flags.BoolVar(&run, "run", false, "make the run that the other flags describe, as run does")
	flags.Lookup(options.KeyOut).DefValue = ""
	flags.Lookup(options.KeyOut).Usage =
		"directory that keeps what perf wrote, and the figures for diff and report"
	complete.Flags(cmd)
	return cmd
}

// newProfiled checks the command line.
func newProfiled(a *app.App, cmd *cobra.Command, run bool, micro string,
	args []string) (*profiled, error) {
	switch {
	case micro != "" && (run || len(args) > 0):
		return nil, app.Usagef("--micro: leave out --run and the result")
	case micro != "":
		if given := flagOfRun(cmd, "transport", "duration"); given != "" {
			return nil, app.Usagef("--%s: it has no effect on a microbenchmark; --micro takes "+
				"--transport and --duration", given)
		}
	case len(args) > 1:
		return nil, app.Usagef("c2c takes one result, got %d", len(args))
	case len(args) == 0 && !run:
		return nil, app.Usagef("c2c needs a result whose run it repeats, or --run with the flags "+
			"of run; see %s --help", cmd.CommandPath())
	case len(args) == 1 && run:
		return nil, app.Usagef("c2c repeats the run of %s: leave out --run, or the result", args[0])
	}
	fixed := map[string]string{"repeats": strconv.Itoa(perf.Windows), "launches": "1"}
	s, err := open(a, cmd, cmd.Flags(), map[string]string{options.KeyOut: ""}, fixed)
	if err != nil {
		return nil, err
	}
	s.engine.Beside.StateOnly = true
	p := &profiled{session: s, micro: micro}
	if err := agents.Alone(s.settings, "c2c attaches perf to the ranks of one host"); err != nil {
		return nil, err
	}
	if len(args) == 1 {
		if err := p.repeatRun(cmd, args[0]); err != nil {
			return nil, err
		}
	}
	switch settings := s.settings; {
	case len(settings.Transports) != 1 || settings.Transports[0] == options.All:
		return nil, app.Usagef("--transport: c2c takes one transport")
	case settings.Config.Duration < perf.MinWindow:
		return nil, app.Usagef("--duration: %s is too short for perf to attach (at least %s)",
			settings.Config.Duration, perf.MinWindow)
	}
	return p, nil
}

// flagOfRun returns the first flag of run that the user has given, except those in taken, or "".
func flagOfRun(cmd *cobra.Command, taken ...string) (given string) {
	own := options.WithoutRun(cmd.Flags())
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if own.Lookup(f.Name) == nil && !slices.Contains(taken, f.Name) {
			given = cmp.Or(given, f.Name)
		}
	})
	return given
}

// repeatRun sets what is run to that of a result.
func (p *profiled) repeatRun(cmd *cobra.Command, path string) error {
	if given := flagOfRun(cmd); given != "" {
		return app.Usagef("--%s: c2c repeats the run of %s; use --run instead to describe one",
			given, path)
	}
	text, err := files.ReadArgument(path, result.MaxSize)
	if err != nil {
		return app.Usagef("reading result %s: %v", path, err)
	}
	r, err := result.Parse(text)
	if err != nil {
		return app.BadInput(fmt.Errorf("reading result %s: %w", path, err))
	}
	switch {
	case r.Kind != result.KindRun || r.Config.Transport == "":
		return app.Usagef("%s is no result of a run", path)
	case len(r.Hosts) > 0:
		return app.Usagef("%s is of %d hosts, and c2c attaches perf to the ranks of one", path,
			len(r.Hosts))
	}
	c := r.Config
	c.Repeats, c.Launches = p.settings.Config.Repeats, p.settings.Config.Launches
	c.Duration = max(c.Duration, perf.MinWindow)
	p.saved, p.settings.Config = r, c
	p.settings.Transports, p.settings.Set = []string{c.Transport}, nil
	return nil
}

func (p *profiled) run(ctx context.Context) error {
	// perf follows links and replaces what it finds, so it writes where nobody else can.
	if err := files.CheckExposed(os.TempDir()); err != nil {
		return fmt.Errorf("c2c: making a directory for perf: %w; set TMPDIR to another directory",
			err)
	}
	var err error
	if p.dir, err = os.MkdirTemp("", "transportbench-c2c-"); err != nil {
		return err
	}
	defer os.RemoveAll(p.dir)
	out := p.settings.Out
	p.settings.Out = cmp.Or(out, p.dir)
	if err := p.check(); err != nil {
		return err
	}
	shown, err := p.profile(ctx)
	if err != nil {
		return p.settings.Explain(err)
	}
	if p.settings.JSON {
		err = app.WriteJSON(p.Stdout, shown)
	} else {
		terminal.Print(p.Stdout, shown.Doc())
	}
	if out != "" {
		if err := shown.Keep(p.dir, out); err != nil {
			return app.BadOutput("--out", err)
		}
		p.Note("%s has what perf wrote, and %s", out, perf.ProfileFile)
	}
	if err == nil {
		err = shown.Err()
	}
	return err
}

// profile makes the run, or takes the reading, with perf attached.
func (p *profiled) profile(ctx context.Context) (*perf.Profile, error) {
	if p.micro != "" {
		plugin, err := p.findPlugin(ctx, p.settings.Transports[0])
		if err != nil {
			return nil, err
		}
		return p.perf.Micro(ctx, plugin, p.micro, time.Duration(p.settings.Config.Duration), p.dir)
	}
	jobs, err := (&runs{session: p.session}).jobs(ctx)
	if err != nil {
		return nil, err
	}
	job := jobs[0]
	if p.saved != nil {
		job.Config.Options = p.saved.Config.Options
	}
	progress := terminal.NewProgress(p.Stderr, job.Config.Transport+" "+job.Config.Profile)
	defer progress.Close()
	job.Began = p.Began
	if job.Launcher, err = job.Plugin.Launcher(progress, p.settings.AllowMixed); err != nil {
		return nil, err
	}
	shown, err := p.perf.Profile(ctx, p.engine, job, progress, p.dir)
	if err == nil && p.saved != nil {
		shown.Throughput.Result = p.saved.Summary[result.Throughput].Median
	}
	return shown, err
}
