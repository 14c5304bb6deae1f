package measure

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/agents"
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core"
	"transportbench/core/base/printable"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

const setupHelp = "show what a start took, too: opening, registering, connecting, first " +
	"calls, closing"

func runCommand(a *app.App) *cobra.Command {
	setup, dryRun, trace := false, false, ""
	cmd := &cobra.Command{
		Use: "run", Short: "Run transports under one load", Args: app.NoArgs,
		Long: `run starts the ranks of a transport, applies a load, and writes a result file. It
runs several transports one after the other and compares them; for a diff with another
day use sweep, which also measures a reference. Progress goes to standard error and
the table to standard output; with --json standard output has only the results, one
JSON document after the other.

Ctrl-C ends a run and keeps the complete repeats; a second one kills it at once. A
run that is killed keeps them, too.

` + app.ExitHelp,
		Example: `  transportbench run --transport shm --in-flight 32
  transportbench run --transport all --profile pingpong
  transportbench run --transport shm --value-size 4KiB --clients 4 --repeats 20 --json
  transportbench run --transport tcpx --profile bulk --trace trace.json
  transportbench run --profile kv --dry-run`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := open(a, cmd, cmd.Flags(), nil, nil)
			if err != nil {
				return err
			}
			r := &runs{session: s}
			if dryRun {
				return r.showPlan(cmd.Context())
			}
			defer r.leave()
			if r.trace, err = newTraceFile(trace); err != nil {
				return err
			}
			interrupted, err := r.all(cmd.Context())
			if err != nil {
				return err
			}
			if err := r.show(setup); err != nil {
				return err
			}
			if err := r.trace.write(cmd.Context(), a); err != nil {
				return err
			}
			if interrupted != nil {
				return interrupted
			}
			return r.outcome()
		},
	}
	options.AddRun(cmd.Flags(), nil)
	options.AddJSON(cmd.Flags())
	cmd.Flags().BoolVar(&setup, "setup", false, setupHelp)
	cmd.Flags().StringVar(&trace, "trace", "", traceHelp)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false,
		"print the options, where each is from, and the expected time only")
	complete.Flags(cmd)
	return cmd
}

// runs are the runs of a command, one for each transport.
type runs struct {
	*session
	results []*result.Result
	paths   []string // of the results' files
	missing []missing
	trace   *traceFile
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

// jobs returns the runs of the transports that the settings name and that can run here. It records
// the others as missing.
func (r *runs) jobs(ctx context.Context) ([]experiment.Run, error) {
	plugins, err := r.plugins(ctx, r.settings.Transports, nil)
	if err != nil {
		return nil, r.settings.Explain(err)
	}
	var usable []*experiment.Plugin
	for _, p := range plugins {
		if err := p.Problem(); err != nil {
			r.fail(p.Identity.Name, err, false)
			continue
		}
		usable = append(usable, p)
	}
	switch {
	case len(usable) == 0 && len(plugins) == 1:
		return nil, r.missing[0].err
	case len(usable) == 0:
		return nil, fmt.Errorf("none of %d transports can run here; see %s plugins list",
			len(plugins), r.Program)
	}
	jobs, err := experiment.Runs(usable, r.settings.Config, r.settings.Set)
	return jobs, r.settings.Explain(err)
}

// fail records a run that failed; recorded means that it has a result.
func (r *runs) fail(name string, err error, recorded bool) {
	harmless := r.settings.Transports[0] == options.All && errors.Is(err, transport.ErrUnavailable)
	r.missing = append(r.missing, missing{transport: name, err: err, harmless: harmless,
		recorded: recorded})
}

// missingCells returns the runs without a result.
func (r *runs) missingCells() []set.Cell {
	var list []set.Cell
	for _, m := range r.missing {
		if m.recorded {
			continue
		}
		status := set.Failed
		if m.harmless || errors.Is(m.err, transport.ErrUnavailable) {
			status = set.Unavailable
		}
		list = append(list, set.Cell{Config: map[string]string{"transport": m.transport},
			Status: status, Reason: strings.TrimPrefix(printable.Joined(m.err),
				m.transport+": unavailable: "), Environment: -1})
	}
	return list
}

// showPlan prints what would run on this host.
func (r *runs) showPlan(ctx context.Context) error {
	if r.settings.JSON {
		return app.Usagef("--dry-run: it prints a table: leave out --json")
	}
	var err error
	if r.own, err = agents.OwnOptions(r.settings); err != nil {
		return err
	}
	if err := r.engine.ReadMachine(); err != nil {
		return err
	}
	jobs, err := r.jobs(ctx)
	if err != nil {
		return err
	}
	terminal.Print(r.Stdout, listing.Runs(jobs, r.settings, r.engine.Expected(jobs), r.Verbose))
	for _, m := range r.missingCells() {
		r.Note("%s: %s: %s", m.Transport(), m.Status, m.Reason)
	}
	return nil
}

// all runs the selected transports. An interrupt ends it early, and is
// returned separately because complete results remain.
func (r *runs) all(ctx context.Context) (interrupted, err error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if err := r.join(ctx); err != nil {
		return nil, err
	}
	jobs, err := r.jobs(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.trace.record(jobs, r.settings.Transports[0] != options.All); err != nil {
		return nil, err
	}
	if lasts := r.engine.Expected(jobs); lasts >= longRun {
		r.Note("this takes about %s; use fewer --repeats or a shorter --duration for less. Ctrl-C "+
			"keeps the complete repeats%s", format.Left(lasts), busy(&r.engine.Environment))
	}
	all, interrupted := r.engine.All(ctx, jobs, func(i int) experiment.Screen {
		label := jobs[i].Config.Transport + " " + jobs[i].Config.Profile
		if len(jobs) > 1 {
			label = fmt.Sprintf("[%d/%d] %s", i+1, len(jobs), label)
		}
		return terminal.NewProgress(r.Progress(), label)
	})
	for _, done := range all {
		if done.Result != nil {
			r.results, r.paths = append(r.results, done.Result), append(r.paths, done.Path)
		}
		if done.Err != nil {
			r.fail(done.Transport, r.settings.Explain(done.Err), done.Result != nil)
		}
	}
	return interrupted, nil
}

// longRun is the time from which a run is announced with its time and size.
const longRun = 10 * time.Minute

// outcome returns the error of the session: failed runs first, then results
// that must not be used.
func (r *runs) outcome() error {
	var failures []error
	for _, m := range r.missing {
		if !m.harmless {
			failures = append(failures, m.err)
		}
	}
	switch {
	case len(failures) == 1:
		return failures[0]
	case len(failures) > 1:
		return fmt.Errorf("%d runs failed; the first: %w", len(failures), failures[0])
	case len(r.results) == 0:
		return fmt.Errorf("nothing ran; the first reason: %w", r.missing[0].err)
	}
	for _, done := range r.results {
		if done.Failed() {
			return app.Exitf(app.ExitThreshold, "%s %s failed a check: do not use its numbers",
				done.Plugin.Name, done.Config.Profile)
		}
	}
	return nil
}

// show writes the results: as JSON, one in full, or several in a table, with what their setup took
// if setup is set.
func (r *runs) show(setup bool) error {
	missing := r.missingCells()
	all := set.New()
	for _, one := range r.results {
		if err := all.Add(one); err != nil {
			return err
		}
	}
	if r.settings.JSON {
		for i, one := range r.results {
			if err := result.Encode(r.Stdout, one); err != nil {
				return err
			}
			r.Note("result in %s", r.paths[i])
		}
		for _, m := range missing {
			r.Note("%s: %s: %s", m.Transport(), m.Status, m.Reason)
		}
		r.Warn(r.Stderr, tables.Oversubscribed(all))
		r.Warn(r.Stderr, tables.Warnings(all))
		return nil
	}
	all.Cells = append(all.Cells, missing...)
	d := new(doc.Doc)
	switch {
	case len(all.Cells) > 1:
		d.Append(tables.Tables(all))
	case len(r.results) == 1:
		d.Append(tables.Result(r.results[0]))
		d.Fold("work per operation", tables.Work(all))
		d.Fold("events", findings.Events(r.results[0]))
	}
	if setup {
		d.Append(tables.Setup(all))
	}
	d.Append(tables.Witnesses(r.results))
	r.Print(d)
	for i, path := range r.paths {
		if i == 0 {
			fmt.Fprintln(r.Stdout)
		}
		fmt.Fprintf(r.Stdout, "result in %s\n", path)
	}
	return nil
}

// BenchTakes is how long bench takes on two processors, as the README says, too.
const BenchTakes = "about three minutes"

func benchCommand(a *app.App) *cobra.Command {
	f := new(sweepFlags)
	cmd := &cobra.Command{
		Use: "bench", Short: "Compare every transport that this machine can run", Args: app.NoArgs,
		Long: `bench is the standard comparison, the same as "sweep standard": each transport
under the same few loads, interleaved, with a start of its own for each repeat.
It takes ` + BenchTakes + ` and writes the results to a directory of their own.

` + app.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := openSweep(a, cmd, timed(a, "bench-"))
			if err != nil {
				return err
			}
			return s.sweep(cmd, f, []string{standardSweep}, s.benchTables)
		},
	}
	f.add(cmd.Flags(), filepath.Join(options.DefaultOut, "bench-TIME"))
	complete.Flags(cmd)
	return cmd
}

// timed returns a name with the time of the command.
func timed(a *app.App, prefix string) string {
	return prefix + a.Began.UTC().Format("20060102T150405Z")
}

// benchTables writes the tables of bench below the version and the machine, and what to try next.
func (s *session) benchTables(all *set.Set) {
	d := new(doc.Doc)
	if len(all.Cells) > 0 {
		d.Append(tables.Heading(core.Version, all.Machine(&all.Cells[0])))
	}
	d.Append(tables.Tables(all))
	s.Print(d)
	fmt.Fprintf(s.Stdout, "\nresults in %s\n", s.settings.Out)
	s.suggestNext()
}

func (s *session) suggestNext() {
	if s.Quiet {
		return
	}
	fmt.Fprintln(s.Stdout, "\nWhat to try next:")
	for _, n := range [][2]string{
		{"diff --along transport " + s.settings.Out,
			"which differences are certain"},
		{"report " + s.settings.Out + " -o report.html", "the same as a page"},
		{"doctor", "what on this machine disturbs the numbers"},
	} {
		fmt.Fprintf(s.Stdout, "  %s %s  %s\n", s.Program, n[0], n[1])
	}
}
