package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/comparison"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// abFlags are the flags of ab that are not options of a run.
type abFlags struct {
	comparison.Flags
	a, b, within string
	limit        time.Duration
	maxRepeats   int
}

func abCommand(a *app.App) *cobra.Command {
	f := new(abFlags)
	cmd := &cobra.Command{
		Use:   "ab --a OPTIONS --b OPTIONS",
		Short: "Alternate two configurations until their difference is known well",
		Args:  app.NoArgs,
		Long: `ab alternates repeats of A and B until the interval of the first metric's change is
narrow enough or the time is up, and gives the verdict of diff from A to B.
OPTIONS are option=value pairs separated by spaces, including the transport's own
options, as transport.option where an option of the run has the same name. Other
flags apply to both.

plugin-dir=DIR takes a side's plugin from DIR alone, so that two builds are
compared; their versions of the runtime may differ. This is the fairest comparison
of versions: same machine, same minutes, same host.

The width of the interval decides the end, never the verdict, so looking after
every repeat cannot turn noise into a difference. --repeats is the minimum.

` + app.ExitHelp,
		Example: `  transportbench ab --a 'transport=shm ring=lamport' --b 'transport=shm ring=fastforward' --in-flight 32
  transportbench ab --a in-flight=1 --b in-flight=2 --within 0.5% --limit 10m
  transportbench ab --transport sockets --a sockets.network=tcp --b sockets.network=unix
  transportbench ab --transport shm --a plugin-dir=OLD/bin/plugins --b plugin-dir=bin/plugins`,
		RunE: func(cmd *cobra.Command, _ []string) error { return compareSides(a, cmd, f) },
	}
	options.AddRun(cmd.Flags(), map[string]string{options.KeyOut: filepath.Join(options.DefaultOut,
		"ab-TIME")}, "launches")
	f.Add(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&f.a, "a", "", "options of A, such as 'transport=NAME in-flight=32'")
	flags.StringVar(&f.b, "b", "", "options of B")
	flags.StringVar(&f.within, "within", "1%", "narrow enough: half the width of the interval")
	flags.DurationVar(&f.limit, "limit", 5*time.Minute, "end after this time")
	flags.IntVar(&f.maxRepeats, "max-repeats", 1000, "end after this many repeats of each")
	flags.IntVar(&f.maxRepeats, "most", 1000, "") // its name in 0.9.0
	_ = flags.MarkHidden("most")
	complete.Flags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(comparison.DiffFormats,
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func compareSides(a *app.App, cmd *cobra.Command, f *abFlags) error {
	s, err := openSweep(a, cmd, timed(a, "ab-"))
	if err != nil {
		return err
	}
	o, err := f.Options()
	if err != nil {
		return err
	}
	if f.Format != comparison.FormatTable {
		terminal.Verbatim(a.Stdout)
	}
	if flags := cmd.Flags(); !flags.Changed("a") && !flags.Changed("b") {
		return app.Usagef("ab needs --a or --b: the options that differ, such as --a in-flight=1 " +
			"--b in-flight=32")
	}
	within, err := comparison.Share(f.within)
	if err != nil || !(within > 0) {
		return app.Usagef("--within: %q is not a share such as 1%%", f.within)
	}
	base, _, err := readSpec(cmd.Flags(), nil)
	if err != nil {
		return err
	}
	if len(base.Axes) > 0 {
		return app.Usagef("--%s: ab takes one value; put options that differ into --a and --b",
			base.Axes[0].Name)
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := s.join(cmd.Context()); err != nil {
		return err
	}
	defer s.leave()
	a1, b1 := &abSide{name: "A", flag: "--a"}, &abSide{name: "B", flag: "--b"}
	if err := s.resolve(cmd.Context(), a1, base, f.a); err != nil {
		return err
	}
	if err := s.resolve(cmd.Context(), b1, base, f.b); err != nil {
		return err
	}
	for _, side := range []*abSide{a1, b1} {
		if !cmd.Flags().Changed(strings.TrimPrefix(side.flag, "--")) {
			s.Note("%s is not given: %s is %s with the flags that apply to both sides, and "+
				"the defaults", side.flag, side.name, side.Config.Transport)
		}
	}
	return s.pairedTest(cmd.Context(), a1, b1, f, &experiment.PairedTest{
		A: a1.Side, B: b1.Side,
		StopRule: compare.StopRule{Within: within, MinRepeats: base.Repeats,
			MaxRepeats: max(f.maxRepeats, base.Repeats)},
		TimeLimit: f.limit, Seed: base.Seed, Compare: o,
	})
}

// abSide is a side of ab.
type abSide struct {
	experiment.Side
	name, flag string
}

// resolve resolves a side from the options of both sides and the text of its own.
func (s *session) resolve(ctx context.Context, side *abSide, base *experiment.Spec,
	text string) error {
	spec := experiment.NewSpec()
	spec.Repeats = base.Repeats
	maps.Copy(spec.Base, base.Flags)
	spec.Profiles = base.Profiles
	var dir *string
	for _, item := range strings.Fields(text) {
		name, value, found := strings.Cut(strings.TrimPrefix(item, "--"), "=")
		switch {
		case !found || name == "":
			return app.Usagef("%s: %q is not of the form option=value", side.flag, item)
		case config.Canonical(name, value) == options.KeyPluginDir:
			dir, side.Mixed = &value, true // they may be of another version of the runtime
		default:
			spec.Flags[config.Canonical(name, value)] = value
		}
	}
	sweep, err := s.plan(ctx, spec, dir, !slices.Contains(spec.Transports(), options.All))
	if err != nil {
		return fmt.Errorf("%s: %w", side.flag, err)
	}
	if len(sweep.Plan.Cells) != 1 {
		return app.Usagef("ab takes one transport per side")
	}
	side.Config, side.Plugins = sweep.Plan.Cells[0].Config, sweep.Plugins
	return nil
}

// notePlugins says which builds are compared if a side names its own.
func (s *session) notePlugins(a, b *abSide) {
	if !a.Mixed && !b.Mixed {
		return
	}
	sums := map[string]bool{}
	for _, side := range []*abSide{a, b} {
		p := side.Plugins[side.Config.Transport]
		sums[p.Identity.SHA256] = true
		s.Note("%s: %s %s, runtime %.12s, SHA-256 %.12s, %s",
			side.name, p.Identity.Name, p.Identity.Version, p.Identity.RuntimeDigest,
			p.Identity.SHA256, p.Path)
	}
	if len(sums) == 1 {
		s.Note("A and B have the same plugin")
	}
}

// pairedTest runs test and shows its outcome.
func (s *session) pairedTest(ctx context.Context, a, b *abSide, f *abFlags,
	test *experiment.PairedTest) error {
	s.notePlugins(a, b)
	s.Note("at least %s of each, about %s%s", format.Count(test.MinRepeats, "repeat"),
		format.Left(test.Expected(s.engine.Beside)), busy(&s.engine.Environment))
	progress := terminal.NewSweepProgress(s.Progress())
	defer progress.Close()
	identity, err := set.Flatten(s.engine.Environment.Identity)
	if err != nil {
		return err
	}
	effect := comparison.FindMinEffect(s.App, &f.Flags,
		func() []calibration.Found {
			return []calibration.Found{
				new(calibration.Finder).Find(identity)}
		})
	test.MinEffect = effect.Of
	began := time.Now()
	test.Begin = func(side string, repeat int) experiment.Observer {
		return progress.Begin(experiment.Status{
			Label: side, Repeat: repeat, Repeats: test.MaxRepeats, Run: repeat,
			Runs: test.MaxRepeats,
			Left: max(0, test.TimeLimit-time.Since(began)),
		})
	}
	test.Judged = func(repeats int, r *compare.Report) {
		progress.Standing(findings.Standing(repeats, r))
	}
	v, interrupted := s.engine.Pair(ctx, test, progress)
	progress.Close()
	if v == nil {
		var identity *compare.IdentityError
		if errors.As(interrupted, &identity) {
			return identity
		}
		return interrupted
	}
	v.Report.Old, v.Report.New = strings.TrimSpace("A "+f.a), strings.TrimSpace("B "+f.b)
	f.More = f.remedy(v)
	verdict := comparison.Conclude(ctx, s.App, &f.Flags, v.Report, len(test.Compare.Thresholds) > 0)
	further := ""
	if f.More != "" {
		further = fmt.Sprintf("; %s for more, or --within (%s)", f.More, f.within)
	}
	s.Note("%s after %s of each%s; results in %s; all notes: transportbench diff -v %s %s",
		v.Ended, format.Count(len(v.A.Repeats), "repeat"), further, s.settings.Out,
		v.Paths[0], v.Paths[1])
	if interrupted != nil {
		return interrupted
	}
	return verdict
}

// remedy returns what lets a test go on that ended before it was precise enough.
func (f *abFlags) remedy(v *experiment.PairedResult) string {
	switch v.Ended {
	case experiment.EndTimeLimit:
		return fmt.Sprintf("raise --limit (%v)", f.limit)
	case experiment.EndMaxRepeats:
		return fmt.Sprintf("raise --max-repeats (%d)", f.maxRepeats)
	}
	return ""
}
