package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core/base/config"
	"transportbench/core/lab/reproduce"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
	"transportbench/core/lab/sweep"
	"transportbench/core/plugin"
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
}

// The files in the directory of a reproduction.
const (
	reproducedRuns   = "runs"           // a sweep
	publishedFigures = "published.json" // of the document
)

func (a *app) reproduceCommand() *cobra.Command {
	r := &reproduction{session: &session{app: a}}
	names := reproduce.Names(results.Files)
	cmd := &cobra.Command{
		Use: "reproduce DOCUMENT", Short: "Measure the tables of a document again, beside its figures",
		Long: `reproduce measures what a document has measured, under its conditions as far as this
machine allows, and prints its tables with our figures and the published ones. It says
which rows need hardware that is not here, and what the document got wrong. The documents are
` + strings.Join(names, ", ") + `. Each takes up to three minutes on two processors; --full takes
the parameters of the document.

The directory of results gets the runs, the microbenchmarks and the published figures; report
draws them with the document's tables. After Ctrl-C, --resume measures what is missing. The flags
are those of sweep and win over the document's parameters.

` + exitHelp,
		Example: `  transportbench reproduce shm
  transportbench reproduce shm --full --out results/local/shm
  transportbench reproduce shm --resume`,
		Args: takes(1, 1, "the name of a document: "+strings.Join(names, ", ")), ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.document, err = reproduce.Load(results.Files, args[0]); err != nil {
				if errors.Is(err, reproduce.ErrUnknown) {
					return usagef("%v", err)
				}
				return err
			}
			r.cmd = cmd
			if r.settings, err = a.settings(cmd, options.WithoutRun(cmd.Flags()), nil, nil); err != nil {
				return err
			}
			return r.run(cmd.Context())
		},
	}
	r.flags.add(cmd.Flags(), filepath.Join(options.DefaultOut, "reproduce-DOCUMENT"))
	cmd.Flags().BoolVar(&r.full, "full", false, "take the parameters of the document, which may take long")
	a.addCompletion(cmd)
	return cmd
}

func (r *reproduction) run(ctx context.Context) error {
	r.name = r.document.Name
	if r.full {
		r.name += "-full"
	}
	if !r.cmd.Flags().Changed(options.KeyOut) && r.settings.Out == options.DefaultOut {
		r.settings.Out = filepath.Join(options.DefaultOut, "reproduce-"+r.name)
	}
	if !r.document.Sweep {
		if err := r.alone("microbenchmarks measure one host"); err != nil {
			return err
		}
	}
	if r.flags.dryRun {
		return r.plan(ctx)
	}
	if err := r.join(ctx); err != nil {
		return err
	}
	defer r.leave()
	if err := r.claim(); err != nil {
		return err
	}
	failed := r.sweep(ctx)
	if ctx.Err() == nil {
		failed = errors.Join(failed, r.micro(ctx))
	}
	if err := r.show(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		r.note("to continue, repeat the command with --resume --out %s", r.settings.Out)
		return ctx.Err()
	}
	return failed
}

// plan prints what would be measured.
func (r *reproduction) plan(ctx context.Context) error {
	if r.document.Sweep {
		_, _, plan, err := r.expand(ctx)
		if err != nil {
			return err
		}
		present.Plan(r.stdout, plan)
		fmt.Fprintln(r.stdout, present.PlanSummary(plan))
	}
	for i := range r.document.Micro {
		m := &r.document.Micro[i]
		fmt.Fprintf(r.stdout, "micro %s %s --duration %s\n", m.Transport, strings.Join(m.Names, " "), r.reading(m))
	}
	return nil
}

// claim begins the directory of results with the published figures, unless it is to be resumed.
func (r *reproduction) claim() error {
	path := filepath.Join(r.settings.Out, publishedFigures)
	switch _, err := os.Stat(path); {
	case r.flags.resume && err != nil:
		return usagef("--resume: %s has no reproduction", r.settings.Out)
	case !r.flags.resume && err == nil:
		return usagef("%s: there is a reproduction already; use --resume to continue it, or another --out", r.settings.Out)
	}
	if err := r.begin(); err != nil {
		return err
	}
	if err := os.MkdirAll(r.settings.Out, 0o755); err != nil {
		return err
	}
	return result.Replace(path, r.document.WritePublished)
}

// expand returns the plan of the sweep.
func (r *reproduction) expand(ctx context.Context) (matrix, *sweep.Spec, *sweep.Plan, error) {
	spec, _, err := readSpec(&r.flags, r.cmd.Flags(), []string{"reproduce/" + r.name})
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := r.matrix(ctx, spec)
	if err != nil {
		return nil, nil, nil, err
	}
	plan, err := sweep.Expand(spec, m)
	if err != nil {
		return nil, nil, nil, explainSpec(err)
	}
	return m, spec, plan, nil
}

// sweep measures the runs of the document.
func (r *reproduction) sweep(ctx context.Context) error {
	if !r.document.Sweep {
		return nil
	}
	m, spec, plan, err := r.expand(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.settings.Out, reproducedRuns)
	outcome, err := r.sweepInto(ctx, dir, m, plan, spec, sweep.Exists(dir))
	if err != nil || outcome == nil {
		return err
	}
	return sweepVerdict(outcome, plan)
}

// reading returns the time of a reading of microbenchmarks.
func (r *reproduction) reading(m *reproduce.Micro) string {
	switch {
	case r.cmd.Flags().Changed("duration"):
		return r.settings.Config.Duration.String()
	case r.full:
		return m.Full
	}
	return m.Duration
}

// micro measures the microbenchmarks of the document that are not yet in the directory.
func (r *reproduction) micro(ctx context.Context) error {
	if r.cluster != nil && len(r.document.Micro) > 0 {
		r.note("microbenchmarks measure one host, so they are left out")
		return nil
	}
	var failed error
	for i := range r.document.Micro {
		d := &r.document.Micro[i]
		file := "micro-" + d.Transport + "-" + strings.Join(d.Names, "-")
		if have, _ := filepath.Glob(filepath.Join(r.settings.Out, file+"-2*.json")); len(have) > 0 {
			continue
		}
		r.note("micro %s %s", d.Transport, strings.Join(d.Names, " "))
		if err := r.measureMicro(ctx, d, file); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			r.note("micro %s: %v", d.Transport, err)
			failed = err
		}
	}
	return failed
}

func (r *reproduction) measureMicro(ctx context.Context, d *reproduce.Micro, file string) error {
	duration, err := time.ParseDuration(r.reading(d))
	if err != nil {
		return err
	}
	repeats := 1
	if r.cmd.Flags().Changed("repeats") {
		repeats = r.settings.Config.Repeats
	}
	return r.storeMicro(ctx, d.Transport, plugin.MicroRequest{Options: d.Options, Names: d.Names, Duration: duration}, repeats, file)
}

// storeMicro measures microbenchmarks of a transport and stores the readings in the directory of
// results.
func (s *session) storeMicro(ctx context.Context, transport string, request plugin.MicroRequest, repeats int, file string) (err error) {
	settings := *s.settings
	settings.Set, settings.Config.Duration = request.Options, config.Duration(request.Duration)
	c := &micro{app: s.app, settings: &settings, request: request, unwitnessed: !settings.Witness}
	if c.entry, err = s.findArgument(ctx, settings.PluginDir, transport); err != nil {
		return err
	}
	if err := c.newSet(); err != nil {
		return err
	}
	for range repeats {
		if err := c.repeat(ctx); err != nil {
			return err
		}
	}
	_, err = c.set.WriteFile(settings.Out, file)
	return err
}

// show prints the tables with what has been measured.
func (r *reproduction) show() error {
	all, err := set.Load(r.settings.Out)
	if err != nil {
		return err
	}
	c, err := r.document.Compare(all)
	if err != nil {
		return err
	}
	if r.settings.JSON {
		present.Warnings(r.stderr, c.Ours)
		return writeJSON(r.stdout, c)
	}
	present.Reproduction(r.stdout, c)
	present.Warnings(r.stdout, c.Ours)
	fmt.Fprintf(r.stdout, "\nresults in %s; %s report %[1]s draws them\n", r.settings.Out, r.program)
	return nil
}
