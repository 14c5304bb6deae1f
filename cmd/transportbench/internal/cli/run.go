package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core/lab/result"
)

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run", Short: "Run transports under one load", Args: noArgs,
		Long: `run starts the ranks of a transport, drives them with one load, and writes a
result file. With several transports it runs one after the other and compares
them. Progress goes to standard error, the table to standard output; with --json
standard output has the results alone, one JSON document behind the other.

Ctrl-C ends a run and keeps the repeats that are complete; a second one kills it
at once.

` + exitHelp,
		Example: `  transportbench run --transport shm --in-flight 32
  transportbench run --transport all --profile pingpong
  transportbench run --transport shm --value-size 4KiB --clients 4 --repeats 20 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.settings(cmd, nil, nil)
			if err != nil {
				return err
			}
			return a.runTransports(cmd.Context(), s)
		},
	}
	options.AddRun(cmd.Flags(), nil)
	options.AddJSON(cmd.Flags())
	a.addCompletion(cmd)
	return cmd
}

func (a *app) addCompletion(cmd *cobra.Command) {
	// Either can fail only where the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc(options.KeyTransport, a.completeTransports)
	if cmd.Flags().Lookup("profile") != nil {
		_ = cmd.RegisterFlagCompletionFunc("profile", completeProfiles)
	}
}

func (a *app) runTransports(ctx context.Context, settings *options.Settings) error {
	s, err := a.newSession(settings)
	if err != nil {
		return err
	}
	entries, set, err := s.selected(ctx)
	if err != nil {
		return err
	}
	var jobs []job
	for _, e := range entries {
		c := settings.Config
		c.Transport, c.Options = e.Name, set[e.Name]
		jobs = append(jobs, job{e, c})
	}
	interrupted := s.runAll(ctx, jobs)
	if err := s.show(); err != nil {
		return err
	}
	if interrupted != nil {
		return interrupted
	}
	return s.outcome()
}

// show writes the results: as JSON, one in full, or several side by side.
func (s *session) show() error {
	if s.settings.JSON {
		for i, r := range s.results {
			if err := result.Encode(s.stdout, r); err != nil {
				return err
			}
			s.note("result in %s", s.paths[i])
		}
		for _, m := range s.absent() {
			s.note("%s", m)
		}
		return nil
	}
	absent := s.absent()
	single := len(s.results)+len(absent) == 1
	if single && len(s.results) == 1 {
		present.Result(s.stdout, s.results[0])
		if s.verbose {
			present.Events(s.stdout, s.results[0])
		}
	} else if !single {
		present.Comparison(s.stdout, s.results, absent)
		if len(s.results) > 0 {
			fmt.Fprintln(s.stdout)
			present.Floors(s.stdout, s.results)
			present.Warnings(s.stdout, s.results)
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
