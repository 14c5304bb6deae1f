package cli

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core/lab/result"
)

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run", Short: "Run transports under one load", Args: noArgs,
		Long: `run starts the ranks of a transport, applies a load, and writes a result file. It
runs several transports one after the other and compares them. Progress goes to
standard error and the table to standard output; with --json standard output has
only the results, one JSON document after the other.

Ctrl-C ends a run and keeps the complete repeats; a second one kills it at once.

` + exitHelp,
		Example: `  transportbench run --transport shm --in-flight 32
  transportbench run --transport all --profile pingpong
  transportbench run --transport shm --value-size 4KiB --clients 4 --repeats 20 --json`,
		RunE: a.withSettings(func(cmd *cobra.Command, settings *options.Settings, _ []string) error {
			s, err := a.newSession(settings)
			if err != nil {
				return err
			}
			interrupted, err := s.runAll(cmd.Context(), settings)
			if err != nil {
				return err
			}
			if err := s.show(); err != nil {
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
	a.addCompletion(cmd)
	return cmd
}

func (a *app) addCompletion(cmd *cobra.Command) {
	// These fail only if the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc(options.KeyTransport, a.completeTransports)
	if cmd.Flags().Lookup("profile") != nil {
		_ = cmd.RegisterFlagCompletionFunc("profile", completeProfiles)
	}
}

// show writes the results: as JSON, one in full, or several in a table.
func (s *session) show() error {
	missing := s.missingResults()
	if s.settings.JSON {
		for i, r := range s.results {
			if err := result.Encode(s.stdout, r); err != nil {
				return err
			}
			s.note("result in %s", s.paths[i])
		}
		for _, m := range missing {
			s.note("%s", m)
		}
		return nil
	}
	switch {
	case len(s.results)+len(missing) > 1:
		s.compare(missing)
	case len(s.results) == 1:
		present.Result(s.stdout, s.results[0])
		if s.verbose {
			present.Events(s.stdout, s.results[0])
		}
	}
	for i, path := range s.paths {
		if i == 0 {
			fmt.Fprintln(s.stdout)
		}
		fmt.Fprintf(s.stdout, "result in %s\n", path)
	}
	return nil
}

func (s *session) compare(missing []present.Missing) {
	present.Comparison(s.stdout, s.results, missing)
	if len(s.results) > 0 {
		fmt.Fprintln(s.stdout)
		present.Floors(s.stdout, s.results)
		present.Warnings(s.stdout, s.results)
	}
}

// benchLoads are the loads of the standard comparison: the round trip, and
// throughput with calls in flight.
var benchLoads = []map[string]string{
	{"profile": "pingpong", "in-flight": "1"},
	{"profile": "kv", "in-flight": "32"},
}

// benchDefaults keep the standard comparison short, with repeats enough for
// intervals.
var benchDefaults = map[string]string{
	options.KeyTransport: options.All,
	"duration":           "500ms",
	"repeats":            "10",
}

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Compare every transport that this machine can run", Args: noArgs,
		Long: `bench is the standard comparison: each transport under the profile pingpong with
one call in flight, and under kv with 32. Profile and calls in flight are part of
it and cannot be set. It takes about 12 seconds per transport and writes the
results to a directory of their own. A transport that rejects one of the loads is
listed below the table.

` + exitHelp,
		RunE: a.bench,
	}
	shown := maps.Clone(benchDefaults)
	shown[options.KeyOut] = filepath.Join(options.DefaultOut, "TIME")
	options.AddRun(cmd.Flags(), shown, "profile", "in-flight")
	a.addCompletion(cmd)
	return cmd
}

func (a *app) bench(cmd *cobra.Command, _ []string) error {
	defaults := maps.Clone(benchDefaults)
	defaults[options.KeyOut] = a.timedOut("")
	var loads []*options.Settings
	for _, fixed := range benchLoads {
		settings, err := a.settings(cmd, cmd.Flags(), defaults, fixed)
		if err != nil {
			return err
		}
		loads = append(loads, settings)
	}
	s, err := a.newSession(loads[0])
	if err != nil {
		return err
	}
	s.fixedLoads = true
	interrupted, err := s.runAll(cmd.Context(), loads...)
	if err != nil {
		return err
	}
	s.compare(s.missingResults())
	if len(s.results) > 0 {
		s.suggestNext()
	}
	if interrupted != nil {
		return interrupted
	}
	return s.outcome()
}

// timedOut returns a directory for results that is named after the time.
func (a *app) timedOut(prefix string) string {
	return filepath.Join(options.DefaultOut, prefix+a.began.UTC().Format("20060102T150405Z"))
}

func (s *session) suggestNext() {
	fmt.Fprintf(s.stdout, "\nThe results are in %s.\n\nWhat to try next:\n", s.settings.Out)
	name := s.results[0].Plugin.Name
	next := [][2]string{
		{"run --transport " + name + " --in-flight 32 --clients 4", "more clients, in full detail"},
		{"plugins show " + name, "the transport's options"},
	}
	if slices.ContainsFunc(s.results, present.HasWarnings) {
		next = append(next, [2]string{"doctor", "what on this machine disturbs the numbers"})
	}
	for _, n := range next {
		fmt.Fprintf(s.stdout, "  %s %s\n      %s\n", s.program, n[0], n[1])
	}
}
