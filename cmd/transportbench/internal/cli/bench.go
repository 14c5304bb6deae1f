package cli

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core"
	"transportbench/core/lab/result"
)

// benchCases are the loads of the standard comparison: the round trip, and
// throughput with calls in flight.
var benchCases = []map[string]string{
	{"profile": "pingpong", "in-flight": "1"},
	{"profile": "kv", "in-flight": "32"},
}

// benchDefaults keep the standard comparison short and its intervals honest.
var benchDefaults = map[string]string{
	options.KeyTransport: options.All,
	"duration":           "500ms",
	"repeats":            "10",
}

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Compare every transport that this machine can run", Args: noArgs,
		Long: `bench is the standard comparison: each transport under the profile pingpong with
one call in flight, and under kv with 32. Profile and calls in flight are part
of it and cannot be set; all else is as for run. It takes about 12 seconds for
each transport and writes the results to a directory of their own. A transport
that cannot take one of the two loads is named below the table.

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
	ctx := cmd.Context()
	defaults := maps.Clone(benchDefaults)
	defaults[options.KeyOut] = filepath.Join(options.DefaultOut, a.began.UTC().Format("20060102T150405Z"))
	var cases []*options.Settings
	for _, fixed := range benchCases {
		settings, err := a.settings(cmd, defaults, fixed)
		if err != nil {
			return err
		}
		cases = append(cases, settings)
	}
	s, err := a.newSession(cases[0])
	if err != nil {
		return err
	}
	entries, set, err := s.selected(ctx)
	if err != nil {
		return err
	}
	var jobs []job
	for _, settings := range cases {
		for _, e := range entries {
			c := settings.Config
			c.Transport, c.Options = e.Name, set[e.Name]
			jobs = append(jobs, job{e, c})
		}
	}
	s.fixedLoads = true
	present.Heading(s.stdout, core.Version, s.machine.environment.Identity)
	interrupted := s.runAll(ctx, jobs)
	s.showBench()
	if interrupted != nil {
		return interrupted
	}
	return s.outcome()
}

func (s *session) showBench() {
	w := s.stdout
	present.Comparison(w, s.results, s.absent())
	if len(s.results) == 0 {
		return
	}
	fmt.Fprintln(w)
	present.Floors(w, s.results)
	present.Warnings(w, s.results)
	fmt.Fprintf(w, "\nThe results are in %s.\n\nWhat to try next:\n", s.settings.Out)
	name := s.results[0].Plugin.Name
	next := [][2]string{
		{s.program + " run --transport " + name + " --in-flight 32 --clients 4", "more clients, in full detail"},
		{s.program + " plugins show " + name, "the options that the transport has"},
	}
	if slices.ContainsFunc(s.results, func(r *result.Result) bool { return present.HasWarnings(r) }) {
		next = append(next, [2]string{s.program + " doctor", "what on this machine disturbs the numbers"})
	}
	for _, n := range next {
		fmt.Fprintf(w, "  %s\n      %s\n", n[0], n[1])
	}
}
