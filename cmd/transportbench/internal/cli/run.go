package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

const setupHelp = "show what a start took, too: opening, registering, connecting, first calls, " +
	"closing"

func (a *app) runCommand() *cobra.Command {
	setup, trace := false, ""
	cmd := &cobra.Command{
		Use: "run", Short: "Run transports under one load", Args: noArgs,
		Long: `run starts the ranks of a transport, applies a load, and writes a result file. It
runs several transports one after the other and compares them. Progress goes to
standard error and the table to standard output; with --json standard output has
only the results, one JSON document after the other.

Ctrl-C ends a run and keeps the complete repeats; a second one kills it at once. A
run that is killed keeps them, too.

` + exitHelp,
		Example: `  transportbench run --transport shm --in-flight 32
  transportbench run --transport all --profile pingpong
  transportbench run --transport shm --value-size 4KiB --clients 4 --repeats 20 --json
  transportbench run --transport tcpx --profile bulk --trace trace.json`,
		RunE: a.withSettings(func(cmd *cobra.Command, settings *options.Settings,
			_ []string) error {
			s, err := a.newSession(settings)
			if err != nil {
				return err
			}
			if s.trace, err = newTraceFile(trace); err != nil {
				return err
			}
			if err := s.join(cmd.Context()); err != nil {
				return err
			}
			defer s.leave()
			interrupted, err := s.runAll(cmd.Context())
			if err != nil {
				return err
			}
			if err := s.show(setup); err != nil {
				return err
			}
			if err := s.trace.write(cmd.Context(), a); err != nil {
				return err
			}
			if interrupted != nil {
				return interrupted
			}
			return s.outcome()
		}),
	}
	options.AddRun(cmd.Flags(), nil)
	options.AddJSON(cmd.Flags())
	cmd.Flags().BoolVar(&setup, "setup", false, setupHelp)
	cmd.Flags().StringVar(&trace, "trace", "", traceHelp)
	a.addCompletion(cmd)
	return cmd
}

// show writes the results: as JSON, one in full, or several in a table, with what their setup took
// if setup is set.
func (s *session) show(setup bool) error {
	missing := s.missingCells()
	all := set.New()
	for _, r := range s.results {
		if err := all.Add(r); err != nil {
			return err
		}
	}
	if s.settings.JSON {
		for i, r := range s.results {
			if err := result.Encode(s.stdout, r); err != nil {
				return err
			}
			s.note("result in %s", s.paths[i])
		}
		for _, m := range missing {
			s.note("%s: %s: %s", m.Transport(), m.Status, m.Reason)
		}
		terminal.Print(s.stderr, tables.Oversubscribed(all))
		terminal.Print(s.stderr, tables.Warnings(all))
		return nil
	}
	all.Cells = append(all.Cells, missing...)
	switch {
	case len(all.Cells) > 1:
		terminal.Print(s.stdout, tables.Tables(all))
	case len(s.results) == 1:
		terminal.Print(s.stdout, tables.Result(s.results[0]))
		terminal.Print(s.stdout, tables.Work(all))
		if s.verbose {
			terminal.Print(s.stdout, findings.Events(s.results[0]))
		}
	}
	if setup {
		terminal.Print(s.stdout, tables.Setup(all))
	}
	terminal.Print(s.stdout, tables.Witnesses(s.results))
	for i, path := range s.paths {
		if i == 0 {
			fmt.Fprintln(s.stdout)
		}
		fmt.Fprintf(s.stdout, "result in %s\n", path)
	}
	return nil
}

// benchTakes is how long bench takes on two processors, as the README says, too.
const benchTakes = "about three minutes"

func (a *app) benchCommand() *cobra.Command {
	f := new(sweepFlags)
	cmd := &cobra.Command{
		Use: "bench", Short: "Compare every transport that this machine can run", Args: noArgs,
		Long: `bench is the standard comparison, the same as "sweep standard": each transport
under the same few loads, interleaved, with a start of its own for each repeat.
It takes ` + benchTakes + ` and writes the results to a directory of their own.

` + exitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := a.settings(cmd, options.WithoutRun(cmd.Flags()),
				map[string]string{options.KeyOut: a.timedOut("bench-")}, nil)
			if err != nil {
				return err
			}
			s := &session{app: a, settings: settings}
			s.tables = s.benchTables
			return s.sweep(cmd, f, []string{standardSweep})
		},
	}
	f.add(cmd.Flags(), filepath.Join(options.DefaultOut, "bench-TIME"))
	a.addCompletion(cmd)
	return cmd
}

// timedOut returns a directory for results that is named after the time.
func (a *app) timedOut(prefix string) string {
	return filepath.Join(options.DefaultOut, prefix+a.began.UTC().Format("20060102T150405Z"))
}

// benchTables writes the tables of bench. They end with the comparison, which transport wins under
// each load, and what to try next.
func (s *session) benchTables(all *set.Set) {
	terminal.Print(s.stdout, tables.Oversubscribed(all))
	terminal.Print(s.stdout, tables.Work(all))
	fmt.Fprintln(s.stdout)
	if len(all.Cells) > 0 {
		terminal.Print(s.stdout, tables.Heading(core.Version, all.Machine(&all.Cells[0])))
	}
	terminal.Print(s.stdout, tables.Comparison(all))
	fmt.Fprintln(s.stdout)
	terminal.Print(s.stdout, tables.Warnings(all))
	o := compare.Defaults()
	o.Metrics = []string{result.Throughput}
	// else there is nothing to compare
	if ranking, err := compare.Along(all, options.KeyTransport, o); err == nil {
		fmt.Fprintln(s.stdout)
		terminal.Print(s.stdout, findings.Verdicts(ranking))
	}
	fmt.Fprintf(s.stdout, "\nresults in %s\n", s.settings.Out)
	s.suggestNext()
}

func (s *session) suggestNext() {
	fmt.Fprintln(s.stdout, "\nWhat to try next:")
	for _, n := range [][2]string{
		{"diff --along transport " + s.settings.Out,
			"which differences between the transports are certain"},
		{"report " + s.settings.Out + " -o report.html", "the same as a page"},
		{"run --transport shm --in-flight 32 --clients 4", "one transport, in full detail"},
		{"doctor", "what on this machine disturbs the numbers"},
	} {
		fmt.Fprintf(s.stdout, "  %s %s\n      %s\n", s.program, n[0], n[1])
	}
}
