package inspect

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/base/files"
	"transportbench/core/lab/doc/report"
	"transportbench/core/lab/doc/report/serve"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/doctor"
	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/set"
	"transportbench/results"
)

// longestPaths bounds the output of doctor, in bytes.
const longestPaths = 64 << 20

// reportFlags are the flags that report and serve share.
type reportFlags struct {
	slo, paths             string
	across, ignore, whatIf []string
}

func (f *reportFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.slo, "slo", "", "objective, such as p99<50us: which loads meet it")
	cmd.Flags().StringVar(&f.paths, "paths", "", "output of doctor --hosts --json, to draw the "+
		"network between the hosts")
}

func (f *reportFlags) options() (report.Options, error) {
	o := report.Options{Compare: compare.Defaults(), Calibrations: new(calibration.Finder).OfSets}
	o.Compare.Across, o.Compare.Ignore, o.WhatIf = f.across, f.ignore, f.whatIf
	for _, name := range reproduce.Names(results.Files) {
		d, err := reproduce.Load(results.Files, name)
		if err != nil {
			return o, err
		}
		o.Documents = append(o.Documents, d)
	}
	if f.slo != "" {
		objective, err := analyze.ParseObjective(f.slo)
		if err != nil {
			return o, app.Usagef("--slo: %v", err)
		}
		o.Objective = &objective
	}
	if f.paths != "" {
		text, err := files.ReadArgument(f.paths, longestPaths)
		if err == nil {
			o.Paths, err = doctor.ParsePaths(text)
		}
		if err != nil {
			return o, app.BadInput(fmt.Errorf("--paths: %w", err))
		}
	}
	return o, nil
}

func reportCommand(a *app.App) *cobra.Command {
	f, output, pair := new(reportFlags), "", false
	cmd := &cobra.Command{
		Use: "report SET...", ValidArgsFunction: complete.Results,
		Short: "Draw sets of results as one HTML file",
		Long: `report draws sets of results as one self-contained HTML file, which opens without
a network. It compares each set with the one before it. With --compare it takes two
sets and fails if they cannot be compared.

` + app.ExitHelp,
		Example: `  transportbench report results/local -o report.html
  transportbench report --compare old/ new/ -o changes.html
  transportbench report results/local --paths paths.json
  transportbench report results/local --slo 'p99<50us' -o report.html`,
		Args: app.Takes(1, 0, "one or more sets of results"),
		RunE: a.WithSettings(func(cmd *cobra.Command, _ *options.Settings, args []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			if pair && len(args) != 2 {
				return app.Usagef("--compare: takes two sets, the old and the new, not %d",
					len(args))
			}
			var sets []*set.Set
			for _, path := range args {
				s, err := readSet(a, path)
				if err != nil {
					return err
				}
				sets = append(sets, s)
			}
			page, err := report.Build(cmd.Context(), sets, o)
			var wrong *analyze.ChangeError
			if errors.As(err, &wrong) {
				return app.Usagef("--what-if: %v", err)
			}
			if err != nil {
				return err
			}
			if err := page.Incomparable(); pair && err != nil {
				return err
			}
			if output == "-" {
				return page.Render(a.Stdout)
			}
			if err := files.Write(cmd.Context(), output, page.Render); err != nil {
				return app.BadOutput("--output", err)
			}
			a.Note("%s: %s", output, page.Title())
			return nil
		}),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "report.html",
		"file to write; - is standard output")
	cmd.Flags().BoolVar(&pair, "compare", false,
		"take two sets, OLD and NEW, and fail if they cannot be compared")
	f.add(cmd)
	cmd.Flags().StringArrayVar(&f.whatIf, "what-if", nil, "change to predict on the page of each "+
		"cell, as analyze does, such as rtt=2us,clients=16; repeatable")
	cmd.Flags().StringSliceVar(&f.across, "across", nil,
		"keys of the environment that may differ between sets, a comma list, or all")
	cmd.Flags().StringSliceVar(&f.ignore, "ignore", nil,
		"options that do not distinguish cells, such as duration")
	return cmd
}

// minEvery keeps a server from reading all the time.
const minEvery = 100 * time.Millisecond

func serveCommand(a *app.App) *cobra.Command {
	f, port, every := new(reportFlags), 0, time.Duration(0)
	cmd := &cobra.Command{
		Use: "serve SET", ValidArgsFunction: complete.Results,
		Short: "Show a set of results in a browser, also while it grows",
		Long: `serve shows the page of report on the loopback interface. New results appear by
themselves: to watch a running sweep, give serve the sweep's directory. Reading
results takes processor time, which a measurement on the same processors notices;
a longer --every disturbs it less. Ctrl-C ends it.

` + app.ExitHelp,
		Example: `  transportbench serve results/local/sweep-latency
  transportbench serve results/local --port 0`,
		Args: app.Takes(1, 1, "one set of results"),
		RunE: a.WithSettings(func(cmd *cobra.Command, _ *options.Settings, args []string) error {
			o, err := f.options()
			switch {
			case err != nil:
				return err
			case every < minEvery:
				return app.Usagef("--every: %v is too short (at least %v)", every, minEvery)
			case port < 0 || port > 65535:
				return app.Usagef("--port: %d is out of range (0 to 65535)", port)
			}
			server, err := serve.New(cmd.Context(), args[0], o, experiment.ProgressOf(), every)
			if err != nil {
				return app.BadInput(err)
			}
			listener, err := serve.Listen(port)
			if err != nil {
				return app.Usagef("--port: %v", err)
			}
			fmt.Fprintf(a.Stdout, "http://%s/\n", listener.Addr())
			a.Note("press Ctrl-C to stop")
			return server.Serve(cmd.Context(), listener)
		}),
	}
	cmd.Flags().IntVar(&port, "port", 8420, "port on the loopback interface; 0 takes any free one")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "how often to look for new results")
	f.add(cmd)
	return cmd
}
