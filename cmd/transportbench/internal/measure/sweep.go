package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/agents"
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
	"transportbench/results"
)

// sweepFlags are the flags of sweep that are not options of a run.
type sweepFlags struct {
	dryRun, resume, reference bool
	columns                   string
}

func sweepCommand(a *app.App) *cobra.Command {
	f, setup := new(sweepFlags), false
	cmd := &cobra.Command{
		Use: "sweep [FILE|NAME]", Short: "Measure a matrix of configurations",
		Long: `sweep measures every combination of its axes. Axes come from a file (YAML, TOML or
JSON), from flags with comma lists (with semicolons if values have commas), or both; a flag
replaces the file's axis. A comma in a value of --set is written \,: --set 'tls=rc\,self,tcp'.
Instead of a file, the name of a built-in sweep: ` + strings.Join(results.Names(), ", ") + `.
Repeats are interleaved: one of every cell in a shuffled order, then the next. Cells
with fewer than six windows in the state of the machine that is shown then get more of
them, for at most 15% of the planned time, so that they have an interval.

Results go to a directory with one file per cell and an index. Every finished
repeat is on disk: after Ctrl-C, a crash or a power cut, the same command with
--resume continues. A cell that fails is recorded with its error.

The load comes only from the file and the flags, not from variables or the
configuration file, so a committed sweep means the same everywhere.

` + app.ExitHelp,
		Example: `  transportbench sweep matrix.yaml
  transportbench sweep --transport shm,ucxam --payload 32,4KiB,64KiB --in-flight 1,32
  transportbench sweep matrix.yaml --dry-run
  transportbench sweep matrix.yaml --resume
  transportbench sweep standard`,
		Args: app.Takes(0, 1, "at most one file"), ValidArgsFunction: complete.Sweeps,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := openSweep(a, cmd, "")
			if err != nil {
				return err
			}
			var columns tables.Columns
			if f.columns != "" {
				if columns, err = tables.ParseColumns(f.columns, config.Names()); err != nil {
					return app.Usagef("--columns: %v", err)
				}
			}
			return s.sweep(cmd, f, args, func(all *set.Set) {
				d := new(doc.Doc)
				if columns == nil {
					d.Append(tables.Tables(all))
				} else {
					d.Append(columns.Of(state.ShownOf(all).Set(all)), tables.Warnings(all))
				}
				if setup {
					d.Append(tables.Setup(all))
				}
				s.Print(d)
				fmt.Fprintf(s.Stdout, "\nresults in %s\n", s.settings.Out)
			})
		},
	}
	f.add(cmd.Flags(), filepath.Join(options.DefaultOut, "sweep-NAME"))
	cmd.Flags().StringVar(&f.columns, "columns", "", "print a table with these metrics and "+
		"options instead, such as iterations,tokens,lookup_p50,read_p99; analyze --columns "+
		"prints it of a saved set")
	cmd.Flags().BoolVar(&setup, "setup", false, setupHelp)
	_ = cmd.RegisterFlagCompletionFunc("columns", complete.Metrics)
	complete.Flags(cmd)
	return cmd
}

// add adds the flags of a sweep. out describes the default directory.
func (f *sweepFlags) add(flags *pflag.FlagSet, out string) {
	options.AddRun(flags, map[string]string{options.KeyOut: out}, "launches")
	options.AddJSON(flags)
	flags.String("order", experiment.Interleaved, experiment.Interleaved+" or "+
		experiment.Sequential)
	flags.Uint64("order-seed", 1, "seed of the order of cells within a round")
	flags.Duration("limit", 0, "end the sweep after this time; --resume continues")
	flags.Duration("cell-limit", 0, "give up a cell if one repeat takes longer")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the cells and the expected time only")
	flags.BoolVar(&f.resume, "resume", false, "continue the sweep in --out")
	flags.BoolVar(&f.reference, "reference", true, "also measure the transport calibration with "+
		"fixed settings in each round, from 6 repeats: diff takes from it how the machine moved")
}

// ofSweep has the flags that say how a sweep goes on.
var ofSweep = map[string]bool{"order": true, "order-seed": true, "limit": true, "cell-limit": true}

// standardSweep is the name of the built-in sweep that bench runs.
const standardSweep = "standard"

// sweepRun is a sweep that a command makes.
type sweepRun struct {
	experiment.Sweep
	name  string // of the file, or made from the plan
	named bool   // it has to have all transports
}

// planSweep reads what a sweep measures, joins its hosts unless it is only planned, and plans it.
func (s *session) planSweep(cmd *cobra.Command, f *sweepFlags, args []string) (r *sweepRun,
	err error) {
	r = new(sweepRun)
	spec, name, err := readSpec(cmd.Flags(), args)
	if err != nil {
		return nil, err
	}
	if f.dryRun {
		s.own, err = agents.OwnOptions(s.settings)
	} else {
		err = s.join(cmd.Context())
	}
	if err != nil {
		return nil, err
	}
	r.named = namesTransports(spec, cmd.Flags(), args)
	if r.Sweep, err = s.plan(cmd.Context(), spec, nil, r.named && !f.dryRun); err != nil {
		return nil, err
	}
	r.Resume, r.name = f.resume, cmp.Or(name, r.Plan.Digest()[:8])
	if f.reference && agents.Alone(s.settings, "") == nil {
		s.addReference(cmd.Context(), r)
	}
	return r, nil
}

// addReference adds the reference to a sweep, if its plugin is there.
func (s *session) addReference(ctx context.Context, r *sweepRun) {
	spec := experiment.NewSpec()
	spec.Repeats = r.Plan.Repeats
	spec.Base[options.KeyTransport] = set.ReferenceTransport
	spec.Base["profile"] = config.ProfileReference
	if one, err := s.plan(ctx, spec, nil, false); err == nil {
		r.AddReference(&one)
	}
}

// sweep makes a sweep. print writes its tables.
func (s *session) sweep(cmd *cobra.Command, f *sweepFlags, args []string,
	print func(*set.Set)) error {
	defer func() { s.leave() }()
	r, err := s.planSweep(cmd, f, args)
	if err != nil {
		return err
	}
	s.settings.Out = cmp.Or(s.settings.Out, filepath.Join(options.DefaultOut, "sweep-"+r.name))
	if f.dryRun {
		terminal.Print(s.Stdout, listing.Plan(r.Plan, s.engine.Beside))
		return nil
	}
	r.Dir = s.settings.Out
	return s.sweepAll(cmd.Context(), r, nil, func(outcome *experiment.Outcome) error {
		if !s.settings.JSON {
			print(outcome.Set)
			return nil
		}
		if err := outcome.Set.Encode(s.Stdout); err != nil {
			return err
		}
		s.Warn(s.Stderr, tables.Warnings(outcome.Set))
		return nil
	})
}

// namesTransports reports whether the user has named the transports of a sweep, by a flag or in a
// file, and so wants all of them. "all" and built-in sweeps stand for those that can run.
func namesTransports(spec *experiment.Spec, flags *pflag.FlagSet, args []string) bool {
	builtIn := len(args) == 1 && results.Sweep(args[0]) != nil
	return (!builtIn || flags.Changed(options.KeyTransport)) &&
		!slices.Contains(spec.Transports(), options.All)
}

// readSpec reads the file, if one is given, and then the flags, which win.
func readSpec(flags *pflag.FlagSet, args []string) (spec *experiment.Spec, name string, err error) {
	spec = experiment.NewSpec()
	if len(args) == 1 {
		file, text := args[0]+".yaml", results.Sweep(args[0])
		if text == nil {
			file = args[0]
			if text, err = files.ReadArgument(file, experiment.MaxSpec); errors.Is(err,
				fs.ErrNotExist) {
				return nil, "", app.Usagef("%s: no such file, and the built-in sweeps are %s%s",
					file,
					strings.Join(results.Names(), ", "),
					suggest.For(file, results.Names()))
			} else if err != nil {
				return nil, "", app.Usagef("%s: %v", file, err)
			}
		}
		if spec, err = experiment.ParseSpec(file, text); err != nil {
			return nil, "", app.Usagef("%s: %v", args[0], err)
		}
		name = strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0]))
	}
	spec.Profiles = options.Profiles()
	given := map[string][]string{}
	flags.Visit(func(flag *pflag.Flag) {
		text := flag.Value.String()
		option := config.Canonical(flag.Name, text)
		switch field := config.FieldByName(option); {
		case flag.Name == "repeats":
			var wrong error
			if spec.Repeats, wrong = strconv.Atoi(text); wrong != nil {
				err = app.Usagef("--repeats: %q is not a whole number", text)
			}
		case field != nil:
			given[option] = field.Split(text)
		case flag.Name == options.KeyTransport:
			given[option] = strings.Split(text, ",")
		default:
			if _, wrong := spec.Set(flag.Name, text); wrong != nil {
				err = app.Usagef("--%s: %v", flag.Name, wrong)
			}
		}
	})
	for _, item := range options.SetItems(flags) {
		option, values, found := strings.Cut(item, "=")
		if !found || option == "" {
			return nil, "", app.Usagef("--set: %q is not of the form key=value", item)
		}
		if config.IsOption(config.Canonical(option, "")) {
			option = experiment.OwnPrefix + option
		}
		given[config.Canonical(option, "")] = options.SplitList(values)
	}
	spec.Override(given)
	if err == nil {
		if wrong := spec.Check(); wrong != nil {
			err = app.Usagef("%v", wrong)
		}
	}
	return spec, name, err
}

// notes prints what a plan has to say.
func (s *session) notes(plan *experiment.Plan) {
	const limit = 5
	for _, text := range plan.Notes[:min(len(plan.Notes), limit)] {
		s.Note("%s", text)
	}
	if more := len(plan.Notes) - limit; more > 0 {
		s.Note("%d more notes like these are left out", more)
	}
}

// explainSpec returns an error about a sweep's options as one of usage.
func explainSpec(err error) error {
	var spec *experiment.SpecError
	var unknown *experiment.UnknownOptionError
	var setting *config.Error
	var own *transport.OptionError
	switch {
	case !errors.As(err, &spec):
		return err
	case errors.As(err, &unknown):
		return app.Usagef("%v%s", err, suggest.For(unknown.Name,
			append(config.Names(), unknown.Own...)))
	case errors.As(err, &setting), errors.As(err, &own):
		return err
	}
	return app.Usagef("%v", err)
}

// sweepAll makes a sweep, calls also to measure more unless that is nil or the sweep was
// interrupted, and shows the results.
func (s *session) sweepAll(ctx context.Context, r *sweepRun, also func() error,
	show func(*experiment.Outcome) error) error {
	if r.Resume && !experiment.HasSweep(r.Dir) {
		return app.Usagef("--resume: %s has no sweep", s.settings.Out)
	}
	outcome, interrupted := s.sweepInto(ctx, r)
	if outcome == nil {
		return interrupted
	}
	if also != nil && ctx.Err() == nil {
		if err := also(); err != nil {
			return err
		}
	}
	if err := show(outcome); err != nil {
		return err
	}
	if interrupted != nil {
		s.Note("to continue, repeat the command with --resume --out %s", s.settings.Out)
		return interrupted
	}
	return r.verdict(outcome)
}

// sweepInto measures a sweep into its directory. An interrupt or the loss of a host ends it early;
// without an outcome nothing was measured.
func (s *session) sweepInto(ctx context.Context, r *sweepRun) (*experiment.Outcome, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if r.Resume { // the first line of progress has the time that is left
		s.Note("continuing %s, in %s", listing.PlanSize(r.Plan), r.Dir)
	} else {
		s.Note("%s, in %s%s", listing.PlanSummary(r.Plan, s.engine.Beside), r.Dir,
			busy(&s.engine.Environment))
	}
	progress := terminal.NewSweepProgress(s.Progress())
	defer progress.Close()
	outcome, interrupted := s.engine.Sweep(ctx, &r.Sweep, progress)
	var changed *experiment.ChangedError
	if outcome == nil && (errors.As(interrupted, &changed) ||
		errors.Is(interrupted, experiment.ErrExists)) {
		return nil, app.Usagef("%v", interrupted)
	}
	return outcome, interrupted
}

// verdict returns the error of a sweep.
func (r *sweepRun) verdict(outcome *experiment.Outcome) error {
	switch {
	case outcome.Failed > 0:
		code := app.ExitInternal
		if outcome.Invalid == outcome.Failed {
			code = app.ExitThreshold
		}
		return app.Exitf(code, "%d of %d cells failed; --resume retries them", outcome.Failed,
			len(r.Plan.Cells))
	case outcome.OutOfTime:
		return app.Exitf(app.ExitTooLittle,
			"the time limit ended the sweep with %d of %d cells complete; --resume continues",
			outcome.Complete, len(r.Plan.Cells))
	case r.named && outcome.Unavailable > 0:
		return fmt.Errorf("%d of %d cells cannot be measured here; the table has the reasons",
			outcome.Unavailable, len(r.Plan.Cells))
	}
	cells := outcome.Set.Cells
	for i := range cells {
		for _, w := range cells[i].Warnings {
			if w.Severity == result.Error {
				return app.Exitf(app.ExitThreshold, "%s: check %s failed: %s",
					set.LabelsOf(cells).Of(cells[i].Config), w.Name, w.Message)
			}
		}
	}
	if outcome.Complete == 0 {
		return errors.New("no cell was measured; the table has the reasons")
	}
	return nil
}
