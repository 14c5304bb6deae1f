package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core/base/config"
	"transportbench/core/lab/compare"
	"transportbench/core/lab/result"
	"transportbench/core/lab/runner"
	"transportbench/core/lab/sweep"
)

// abFlags are the flags of ab that are not options of a run.
type abFlags struct {
	comparison
	a, b, within string
	limit        time.Duration
	most         int
}

func (a *app) abCommand() *cobra.Command {
	f := new(abFlags)
	cmd := &cobra.Command{
		Use: "ab --a OPTIONS --b OPTIONS", Short: "Alternate two configurations until one is known to be better", Args: noArgs,
		Long: `ab alternates repeats of A and B until the interval of the first metric's change is
narrow enough or the time is up, and gives the verdict of diff from A to B.
OPTIONS are option=value pairs separated by spaces, including the transport's own
options. Other flags apply to both.

The width of the interval decides the end, never the verdict, so looking after
every repeat cannot turn noise into a difference. --repeats is the minimum.

` + exitHelp,
		Example: `  transportbench ab --a 'transport=shm ring=lamport' --b 'transport=shm ring=fastforward' --in-flight 32
  transportbench ab --a in-flight=1 --b in-flight=2 --within 0.5% --limit 10m`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.ab(cmd, f) },
	}
	options.AddRun(cmd.Flags(), map[string]string{options.KeyOut: filepath.Join(options.DefaultOut, "ab-TIME")}, "launches")
	f.add(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&f.a, "a", "", "options of A, such as 'transport=shm in-flight=32'")
	flags.StringVar(&f.b, "b", "", "options of B")
	flags.StringVar(&f.within, "within", "1%", "narrow enough: half the width of the interval")
	flags.DurationVar(&f.limit, "limit", 5*time.Minute, "end after this time")
	flags.IntVar(&f.most, "most", 1000, "end after this many repeats of each")
	a.addCompletion(cmd)
	return cmd
}

func (a *app) ab(cmd *cobra.Command, f *abFlags) error {
	settings, err := a.settings(cmd, options.WithoutRun(cmd.Flags()), nil, nil)
	if err != nil {
		return err
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	if flags := cmd.Flags(); !flags.Changed("a") && !flags.Changed("b") {
		return usagef("ab needs --a or --b: the options that differ, such as --a ring=lamport --b ring=onesided")
	}
	within, err := share(f.within)
	if err != nil || !(within > 0) {
		return usagef("--within: %q is not a share such as 1%%", f.within)
	}
	base, _, err := readSpec(new(sweepFlags), cmd.Flags(), nil)
	if err != nil {
		return err
	}
	if len(base.Axes) > 0 {
		return usagef("--%s: ab takes one value; put options that differ into --a and --b", base.Axes[0].Name)
	}
	if !cmd.Flags().Changed(options.KeyOut) && settings.Out == options.DefaultOut {
		settings.Out = a.timedOut("ab-")
	}
	s, err := a.newSession(settings)
	if err != nil {
		return err
	}
	m, configs, err := s.sides(cmd.Context(), base, f)
	if err != nil {
		return err
	}
	return s.pairedTest(cmd.Context(), m, f, &sweep.PairedTest{
		A: configs[0], B: configs[1], Within: within, MinRepeats: base.Repeats, MaxRepeats: max(f.most, base.Repeats),
		TimeLimit: f.limit, Seed: base.Seed, Compare: o,
	})
}

// sides resolves the two configurations.
func (s *session) sides(ctx context.Context, base *sweep.Spec, f *abFlags) (matrix, [2]config.Config, error) {
	var configs [2]config.Config
	both := sweep.NewSpec() // names the transports
	var specs [2]*sweep.Spec
	for i, side := range []struct{ flag, text string }{{"--a", f.a}, {"--b", f.b}} {
		spec := sweep.NewSpec()
		spec.Repeats = base.Repeats
		for name, value := range base.Base {
			spec.Base[name] = value
		}
		for _, item := range strings.Fields(side.text) {
			name, value, found := strings.Cut(strings.TrimPrefix(item, "--"), "=")
			if !found || name == "" {
				return nil, configs, usagef("%s: %q is not of the form option=value", side.flag, item)
			}
			spec.Base[sweep.Option(name)] = value
		}
		specs[i] = spec
		both.Include = append(both.Include, spec.Base)
	}
	m, err := s.matrix(ctx, both)
	if err != nil {
		return nil, configs, err
	}
	for i, spec := range specs {
		plan, err := sweep.Expand(spec, m)
		if err != nil {
			return nil, configs, explainSpec(err)
		}
		if len(plan.Cells) != 1 {
			return nil, configs, usagef("ab takes one transport per side")
		}
		cell := &plan.Cells[0]
		if cell.Unavailable != "" {
			return nil, configs, fmt.Errorf("%s: %s", cell.Config.Transport, cell.Unavailable)
		}
		configs[i] = cell.Config
	}
	return m, configs, nil
}

// pairedTest runs test and shows its outcome.
func (s *session) pairedTest(ctx context.Context, m matrix, f *abFlags, test *sweep.PairedTest) error {
	progress := present.NewSweepProgress(s.stderr)
	defer progress.Close()
	measure, err := s.measureWith(m, progress)
	if err != nil {
		return err
	}
	began := time.Now()
	test.Measure = measure
	test.Begin = func(side string, repeat int) runner.Observer {
		return progress.Begin(sweep.Status{
			Label: side, Repeat: repeat, Repeats: test.MaxRepeats, Run: repeat, Runs: test.MaxRepeats,
			Left: max(0, test.TimeLimit-time.Since(began)),
		})
	}
	test.Judged = func(repeats int, r *compare.Report) { fmt.Fprintln(progress, present.Standing(repeats, r)) }
	v, interrupted := test.Run(ctx)
	progress.Close()
	if v == nil {
		var identity *compare.IdentityError
		if errors.As(interrupted, &identity) {
			return identity
		}
		return interrupted
	}
	for _, r := range []*result.Result{v.A, v.B} {
		if _, err := result.Write(s.settings.Out, r); err != nil {
			return err
		}
	}
	if err := s.showDiff(&f.comparison, v.Report); err != nil {
		return err
	}
	s.note("%s after %d repeats of each; results in %s", v.Ended, len(v.A.Repeats), s.settings.Out)
	if interrupted != nil {
		return interrupted
	}
	return verdictOf(v.Report, len(test.Compare.Thresholds) > 0)
}
