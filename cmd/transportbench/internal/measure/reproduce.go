package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/agents"
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/catalog"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/files"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/set"
	"transportbench/core/lab/study/micro"
	"transportbench/results"
)

// reproduction is the command reproduce.
type reproduction struct {
	*session
	flags    sweepFlags
	full     bool
	name     string // of the sweep
	document *reproduce.Document
	cmd      *cobra.Command

	runs *sweepRun // nil if the document has no sweep

	// of the microbenchmarks: Duration and Repeats, as far as flags say so
	readings *options.Settings
}

// minForInterval is the least number of repeats that have a 95% interval.
const minForInterval = 6

// The files in the directory of a reproduction.
const (
	runsDir          = "runs"           // a sweep
	publishedFigures = "published.json" // of the document
)

func reproduceCommand(a *app.App) *cobra.Command {
	r := new(reproduction)
	names := reproduce.Names(results.Files)
	cmd := &cobra.Command{
		Use:   "reproduce DOCUMENT",
		Short: "Measure the tables of a document again, beside its figures",
		Long: `reproduce measures what a document has measured, under its conditions as far as this
machine allows, and prints its tables with our figures and the published ones. It says
which rows need hardware that is not here, and what the document got wrong. The documents are
` + strings.Join(names, ", ") + `. Each takes up to five minutes on two processors; --full takes
the parameters of the document.

The directory of results gets the runs, the microbenchmarks and the published figures; report
draws them with the document's tables. After Ctrl-C, --resume measures what is missing. The flags
are those of sweep and win over the document's parameters. --duration and --repeats are also those
of the readings of microbenchmarks. --dry-run prints the plan and the document's tables with its
figures, what each row needs, and what is wrong with it.

` + app.ExitHelp,
		Example: `  transportbench reproduce shm
  transportbench reproduce shm --full --out results/local/shm
  transportbench reproduce shm --resume`,
		Args:      app.Takes(1, 1, "the name of a document: "+strings.Join(names, ", ")),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.document, err = reproduce.Load(results.Files, args[0]); err != nil {
				if errors.Is(err, reproduce.ErrUnknown) {
					return app.Usagef("%v", err)
				}
				return err
			}
			r.cmd, r.name = cmd, r.document.Name
			if r.full {
				r.name += "-full"
			}
			if r.session, err = openSweep(a, cmd, "reproduce-"+r.name); err != nil {
				return err
			}
			return r.run(cmd.Context())
		},
	}
	r.flags.add(cmd.Flags(), filepath.Join(options.DefaultOut, "reproduce-DOCUMENT"))
	cmd.Flags().BoolVar(&r.full, "full", false,
		"take the parameters of the document, which may take long")
	complete.Flags(cmd)
	return cmd
}

func (r *reproduction) run(ctx context.Context) error {
	if !r.document.Sweep {
		if err := agents.Alone(r.settings, "microbenchmarks measure one host"); err != nil {
			return err
		}
	}
	if r.flags.dryRun {
		return r.showPlan(ctx)
	}
	if err := r.join(ctx); err != nil {
		return err
	}
	defer r.leave()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.claim(); err != nil {
		return err
	}
	failed, err := r.sweep(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() == nil {
		failed = errors.Join(failed,
			micro.StoreDocument(ctx, r.document, r.engine, r.microReadings()))
	}
	if err := r.show(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		r.Note("to continue, repeat the command with --resume --out %s", r.settings.Out)
		return ctx.Err()
	}
	return failed
}

// prepare finds the plugins and plans the sweep, so that nothing is begun that cannot be.
func (r *reproduction) prepare(ctx context.Context) error {
	for i := range r.document.Micro {
		if _, err := catalog.FindOne(ctx, r.settings.PluginDir,
			r.document.Micro[i].Transport); err != nil {
			return err
		}
	}
	if err := r.prepareReadings(); err != nil || !r.document.Sweep {
		return err
	}
	spec, _, err := readSpec(r.cmd.Flags(), []string{"reproduce/" + r.name})
	if err != nil {
		return err
	}
	sweep, err := r.plan(ctx, spec, nil, false)
	if err != nil {
		return err
	}
	sweep.Dir = filepath.Join(r.settings.Out, runsDir)
	r.runs = &sweepRun{Sweep: sweep}
	return nil
}

// prepareReadings finds what flags say about microbenchmarks, and refuses those that a document
// without a sweep does not heed.
func (r *reproduction) prepareReadings() (err error) {
	if len(r.document.Micro) == 0 {
		return nil
	}
	heeded := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"duration", "repeats"} {
		heeded.AddFlag(r.cmd.Flags().Lookup(name))
	}
	r.cmd.Flags().Visit(func(f *pflag.Flag) {
		if !r.document.Sweep && heeded.Lookup(f.Name) == nil &&
			(options.WithoutRun(r.cmd.Flags()).Lookup(f.Name) == nil || ofSweep[f.Name]) {
			err = app.Usagef(
				"--%s: %s has only microbenchmarks, for which --duration and --repeats are", f.Name,
				r.document.Name)
		}
	})
	if err == nil {
		r.readings, err = r.App.Settings(r.cmd, heeded,
			map[string]string{"repeats": strconv.Itoa(minForInterval)}, nil)
	}
	return err
}

// showPlan prints what would be measured, and the document's tables as they are published. JSON has
// the tables only.
func (r *reproduction) showPlan(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if r.settings.JSON {
		return r.tables(set.New())
	}
	if r.document.Sweep {
		terminal.Print(r.Stdout, listing.Plan(r.runs.Plan, r.engine.Beside))
	}
	for i := range r.document.Micro {
		m := &r.document.Micro[i]
		fmt.Fprintf(r.Stdout, "micro %s %s --duration %s\n", m.Transport,
			strings.Join(m.Names, " "), r.microReadings().Of(m))
	}
	fmt.Fprintln(r.Stdout)
	return r.tables(set.New())
}

// claim begins the directory of results with the published figures, unless it is to be resumed.
func (r *reproduction) claim() error {
	path := filepath.Join(r.settings.Out, publishedFigures)
	switch _, err := os.Stat(path); {
	case r.flags.resume && err != nil:
		return app.Usagef("--resume: %s has no reproduction", r.settings.Out)
	case !r.flags.resume && err == nil:
		return app.Usagef(
			"%s: there is a reproduction already; use --resume to continue it, or another --out",
			r.settings.Out)
	}
	if err := r.check(); err != nil {
		return err
	}
	if err := files.MakeDir(r.settings.Out); err != nil {
		return err
	}
	return files.Replace(path, r.document.WritePublished)
}

// sweep measures the runs of the document, or as many as there are before an interrupt. failed says
// what is wrong with them.
func (r *reproduction) sweep(ctx context.Context) (failed, err error) {
	if !r.document.Sweep {
		return nil, nil
	}
	r.runs.Resume = experiment.HasSweep(r.runs.Dir)
	outcome, interrupted := r.sweepInto(ctx, r.runs)
	if outcome == nil || interrupted != nil && ctx.Err() == nil {
		return nil, interrupted
	}
	return r.runs.verdict(outcome), nil
}

// microReadings returns how the microbenchmarks are read.
func (r *reproduction) microReadings() micro.Readings {
	readings := micro.Readings{Full: r.full, Repeats: minForInterval}
	if r.readings == nil {
		return readings // the document has none
	}
	if r.cmd.Flags().Changed("duration") {
		readings.Duration = r.readings.Config.Duration.String()
	}
	if r.cmd.Flags().Changed("repeats") {
		readings.Repeats = r.readings.Config.Repeats
	}
	return readings
}

// show prints the tables with what has been measured.
func (r *reproduction) show() error {
	all, err := consistency.ReadSet(r.settings.Out)
	if err != nil {
		return err
	}
	if err := r.tables(all); err != nil || r.settings.JSON {
		return err
	}
	fmt.Fprintf(r.Stdout, "\nresults in %s; %s report %[1]s draws them\n", r.settings.Out,
		r.Program)
	return nil
}

// tables prints the document's tables with our figures from a set.
func (r *reproduction) tables(ours *set.Set) error {
	c, err := r.document.Compare(ours)
	if err != nil {
		return err
	}
	if r.settings.JSON {
		r.Warn(r.Stderr, tables.Warnings(c.Ours))
		return app.WriteJSON(r.Stdout, c)
	}
	terminal.Print(r.Stdout, findings.Reproduction(c))
	r.Warn(r.Stdout, tables.Warnings(c.Ours))
	return nil
}
