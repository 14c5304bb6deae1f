package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/sweep"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
	"transportbench/results"
)

// sweepFlags are the flags of sweep that are not options of a run.
type sweepFlags struct {
	order            string
	orderSeed        uint64
	limit, cellLimit time.Duration
	dryRun, resume   bool
	columns          string
}

func (a *app) sweepCommand() *cobra.Command {
	f, setup := new(sweepFlags), false
	cmd := &cobra.Command{
		Use: "sweep [FILE|NAME]", Short: "Measure a matrix of configurations",
		Long: `sweep measures every combination of its axes. Axes come from a file (YAML, TOML or
JSON), from flags with comma lists (with semicolons if values have commas), or both; a flag replaces the file's axis.
Instead of a file, the name of a built-in sweep: ` + strings.Join(results.Names(), ", ") + `.
Repeats are interleaved: one of every cell in a shuffled order, then the next.

Results go to a directory with one file per cell and an index. Every finished
repeat is on disk: after Ctrl-C, a crash or a power cut, the same command with
--resume continues. A cell that fails is recorded with its error.

The load comes only from the file and the flags, not from variables or the
configuration file, so a committed sweep means the same everywhere.

` + exitHelp,
		Example: `  transportbench sweep matrix.yaml
  transportbench sweep --transport shm,ucxam --payload 32,4KiB,64KiB --in-flight 1,32
  transportbench sweep matrix.yaml --dry-run
  transportbench sweep matrix.yaml --resume
  transportbench sweep standard`,
		Args: takes(0, 1, "at most one file"), ValidArgsFunction: completeSweeps,
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := a.settings(cmd, options.WithoutRun(cmd.Flags()), nil, nil)
			if err != nil {
				return err
			}
			s := &session{app: a, settings: settings}
			var columns tables.Columns
			if f.columns != "" {
				if columns, err = tables.ParseColumns(f.columns, config.Names()); err != nil {
					return usagef("--columns: %v", err)
				}
			}
			s.tables = func(all *set.Set) {
				if columns == nil {
					terminal.Print(s.stdout, tables.Tables(all))
				} else {
					terminal.Print(s.stdout, columns.Of(all))
					terminal.Print(s.stdout, tables.Warnings(all))
				}
				if setup {
					terminal.Print(s.stdout, tables.Setup(all))
				}
				fmt.Fprintf(s.stdout, "\nresults in %s\n", s.settings.Out)
			}
			return s.sweep(cmd, f, args)
		},
	}
	f.add(cmd.Flags(), filepath.Join(options.DefaultOut, "sweep-NAME"))
	cmd.Flags().StringVar(&f.columns, "columns", "", "print a table with these metrics and options instead, such as iterations,tokens,lookup_p50,read_p99; analyze --columns prints it of a saved set")
	cmd.Flags().BoolVar(&setup, "setup", false, setupHelp)
	_ = cmd.RegisterFlagCompletionFunc("columns", completeColumns)
	a.addCompletion(cmd)
	return cmd
}

// add adds the flags of a sweep. out describes the default directory.
func (f *sweepFlags) add(flags *pflag.FlagSet, out string) {
	options.AddRun(flags, map[string]string{options.KeyOut: out}, "launches")
	options.AddJSON(flags)
	flags.StringVar(&f.order, "order", sweep.Interleaved, sweep.Interleaved+" or "+sweep.Sequential)
	flags.Uint64Var(&f.orderSeed, "order-seed", 1, "seed of the order of cells within a round")
	flags.DurationVar(&f.limit, "limit", 0, "end the sweep after this time; --resume continues")
	flags.DurationVar(&f.cellLimit, "cell-limit", 0, "give up a cell if one repeat takes longer")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the cells and the expected time only")
	flags.BoolVar(&f.resume, "resume", false, "continue the sweep in --out")
}

// ofSweep has the flags that say how a sweep goes on.
var ofSweep = map[string]bool{"order": true, "order-seed": true, "limit": true, "cell-limit": true}

// standardSweep is the name of the built-in sweep that bench runs.
const standardSweep = "standard"

// sweepRun is a sweep that a command makes.
type sweepRun struct {
	spec       *sweep.Spec
	transports matrix
	plan       *sweep.Plan
	name       string // of the file, or made from the plan
	named      bool   // it has to have all transports
	resume     bool
	dir        string
}

// planSweep reads what a sweep measures, joins its hosts unless it is only planned, and plans it.
func (s *session) planSweep(cmd *cobra.Command, f *sweepFlags, args []string) (*sweepRun, error) {
	spec, name, err := readSpec(f, cmd.Flags(), args)
	if err != nil {
		return nil, err
	}
	if !f.dryRun {
		if err := s.join(cmd.Context()); err != nil {
			return nil, err
		}
	}
	r := &sweepRun{spec: spec, name: name, resume: f.resume, named: namesTransports(spec, cmd.Flags(), args)}
	if r.transports, err = s.matrix(cmd.Context(), spec); err != nil {
		return nil, err
	}
	if r.named && !f.dryRun {
		if err := r.transports.available(); err != nil {
			return nil, err
		}
	}
	if err := s.expand(r); err != nil {
		return nil, err
	}
	r.name = cmp.Or(r.name, r.plan.Digest()[:8])
	return r, nil
}

// expand plans a sweep.
func (s *session) expand(r *sweepRun) (err error) {
	if r.plan, err = sweep.Expand(r.spec, r.transports); err != nil {
		return explainSpec(err)
	}
	s.notes(r.plan)
	return nil
}

func (s *session) sweep(cmd *cobra.Command, f *sweepFlags, args []string) error {
	defer func() { s.leave() }()
	r, err := s.planSweep(cmd, f, args)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed(options.KeyOut) && s.settings.Out == options.DefaultOut {
		s.settings.Out = filepath.Join(options.DefaultOut, "sweep-"+r.name)
	}
	if f.dryRun {
		terminal.Print(s.stdout, listing.Plan(r.plan, s.beside()))
		return nil
	}
	r.dir = s.settings.Out
	return s.sweepAll(cmd.Context(), r, nil, s.showSweep)
}

// showSweep shows what a sweep measured.
func (s *session) showSweep(outcome *sweep.Outcome) error {
	if !s.settings.JSON {
		s.tables(outcome.Set)
		return nil
	}
	if err := outcome.Set.Encode(s.stdout); err != nil {
		return err
	}
	terminal.Print(s.stderr, tables.Warnings(outcome.Set))
	return nil
}

// namesTransports reports whether the user has named the transports of a sweep, by a flag or in a file, and
// so wants all of them. "all" and built-in sweeps stand for those that can run.
func namesTransports(spec *sweep.Spec, flags *pflag.FlagSet, args []string) bool {
	builtIn := len(args) == 1 && results.Sweep(args[0]) != nil
	return (!builtIn || flags.Changed(options.KeyTransport)) && !slices.Contains(spec.Transports(), options.All)
}

// readSpec reads the file, if one is given, and then the flags, which win.
func readSpec(f *sweepFlags, flags *pflag.FlagSet, args []string) (spec *sweep.Spec, name string, err error) {
	spec = sweep.NewSpec()
	if len(args) == 1 {
		file, text := args[0]+".yaml", results.Sweep(args[0])
		if text == nil {
			file = args[0]
			if text, err = files.ReadArgument(file, sweep.MaxFile); errors.Is(err, fs.ErrNotExist) {
				return nil, "", usagef("%s: no such file, and the built-in sweeps are %s%s", file,
					strings.Join(results.Names(), ", "), transport.SuggestionFor(file, results.Names()))
			} else if err != nil {
				return nil, "", usagef("%s: %v", file, err)
			}
		}
		if spec, err = sweep.Parse(file, text); err != nil {
			return nil, "", usagef("%s: %v", args[0], err)
		}
		name = strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0]))
	}
	given := map[string][]string{}
	flags.Visit(func(flag *pflag.Flag) {
		text := flag.Value.String()
		option := config.Canonical(flag.Name, text)
		switch field := config.FieldByName(option); {
		case flag.Name == "repeats":
			var wrong error
			if spec.Repeats, wrong = strconv.Atoi(text); wrong != nil {
				err = usagef("--repeats: %q is not a whole number", text)
			}
		case field != nil:
			given[option] = field.Split(text)
		case flag.Name == options.KeyTransport:
			given[option] = strings.Split(text, ",")
		case flag.Name == "order":
			spec.Order = f.order
		case flag.Name == "order-seed":
			spec.Seed = f.orderSeed
		case flag.Name == "limit":
			spec.Limit = f.limit
		case flag.Name == "cell-limit":
			spec.CellLimit = f.cellLimit
		}
	})
	for _, item := range options.SetItems(flags) {
		option, values, found := strings.Cut(item, "=")
		if !found || option == "" {
			return nil, "", usagef("--set: %q is not of the form key=value", item)
		}
		if config.IsOption(config.Canonical(option, "")) {
			option = sweep.OwnPrefix + option
		}
		given[config.Canonical(option, "")] = strings.Split(values, ",")
	}
	spec.Override(given)
	if err == nil {
		if wrong := spec.Check(); wrong != nil {
			err = usagef("%v", wrong)
		}
	}
	return spec, name, err
}

// matrix has the plugins of a sweep by name. It implements [sweep.Resolver].
type matrix map[string]*entry

// matrix finds the plugins that a sweep names.
func (s *session) matrix(ctx context.Context, spec *sweep.Spec) (matrix, error) {
	return matrixOf(spec, func(names []string) ([]*entry, error) {
		return s.onHosts(ctx)(s.find(ctx, s.settings.PluginDir, names))
	})
}

// matrixIn finds them in one directory.
func (s *session) matrixIn(ctx context.Context, spec *sweep.Spec, dir string) (matrix, error) {
	return matrixOf(spec, func(names []string) ([]*entry, error) { return s.onHosts(ctx)(findIn(ctx, dir, names)) })
}

func matrixOf(spec *sweep.Spec, find func(names []string) ([]*entry, error)) (matrix, error) {
	entries, err := find(spec.Transports())
	if err != nil {
		return nil, err
	}
	m := matrix{}
	for _, e := range entries {
		if e.err != nil && !errors.Is(e.err, transport.ErrUnavailable) { // whether it can run here is not known
			return nil, fmt.Errorf("%w; try again, or name other transports with --transport", e.err)
		}
		m[e.Name] = e
	}
	return m, nil
}

// without returns m as it is if the named transports lack what they need to tell their options.
func (m matrix) without(names []string) matrix {
	m = maps.Clone(m)
	for _, name := range names {
		if e := m[name]; e != nil {
			m[name] = &entry{Plugin: e.Plugin, err: transport.ErrUnavailable}
		}
	}
	return m
}

// available returns the error of the first transport that cannot run here, or nil.
func (m matrix) available() error {
	for _, name := range m.Transports() {
		if err := m[name].problem(); err != nil {
			return err
		}
	}
	return nil
}

// Own implements [sweep.Resolver].
func (m matrix) Own(name string) ([]string, bool) {
	e, ok := m[name]
	if !ok {
		return nil, name == options.All
	}
	var names []string
	for _, o := range e.description.Info.Options {
		names = append(names, o.Name)
	}
	return names, true
}

// Transports implements [sweep.Resolver].
func (m matrix) Transports() []string { return slices.Sorted(maps.Keys(m)) }

// Resolve implements [sweep.Resolver]. A cell on the track matched that is the
// same on the track shipped is that one, so that it is not measured twice.
func (m matrix) Resolve(name string, layers []config.Layer, own map[string]string) (config.Config, string, error) {
	e := m[name]
	layers = append([]config.Layer{options.Profiles()}, layers...)
	c, origins, err := config.Resolve(layers...)
	if err != nil {
		for _, o := range e.description.Info.Options {
			if _, set := origins[o.Name]; set {
				err = fmt.Errorf("%w; the option of %s with this name is %s.%s", err, name, name, o.Name)
			}
		}
		return c, "", err
	}
	c.Transport, c.Options = name, map[string]string{}
	if e.err != nil {
		return c, e.unavailable(), nil
	}
	matched, err := c.Track.OwnOptions(e.description.Info, own)
	if err != nil {
		return c, "", err
	}
	complete, err := transport.ParseOptions(e.description.Info.Options, matched)
	if err != nil {
		return c, "", err
	}
	c.Options = complete.Map()
	if c.Track == config.TrackMatched {
		shipped, _, err := config.Resolve(append(layers, config.Layer{Values: map[string]string{"track": config.TrackShipped.String()}})...)
		if err != nil {
			return c, "", err
		}
		defaults, err := transport.ParseOptions(e.description.Info.Options, own)
		if err != nil {
			return c, "", err
		}
		if shipped.VerifyEvery == c.VerifyEvery && maps.Equal(defaults.Map(), c.Options) {
			c.Track = config.TrackShipped
		}
	}
	return c, e.unavailable(), nil
}

// notes prints what a plan has to say.
func (s *session) notes(plan *sweep.Plan) {
	const most = 5
	for _, text := range plan.Notes[:min(len(plan.Notes), most)] {
		s.note("%s", text)
	}
	if more := len(plan.Notes) - most; more > 0 {
		s.note("%d more points of the axes are the loads of other cells", more)
	}
}

// explainSpec returns an error about a sweep's options as one of usage.
func explainSpec(err error) error {
	var unknown *sweep.UnknownOptionError
	var setting *config.Error
	var own *transport.OptionError
	switch {
	case errors.As(err, &unknown):
		return usagef("%v%s", err, transport.SuggestionFor(unknown.Name, append(config.Names(), unknown.Own...)))
	case errors.As(err, &setting), errors.As(err, &own):
		return err
	}
	return usagef("%v", err)
}

// sweepAll makes a sweep, calls also to measure more unless that is nil or the sweep was interrupted, and
// shows the results.
func (s *session) sweepAll(ctx context.Context, r *sweepRun, also func() error, show func(*sweep.Outcome) error) error {
	if r.resume && !sweep.Exists(r.dir) {
		return usagef("--resume: %s has no sweep", s.settings.Out)
	}
	if err := s.begin(); err != nil {
		return err
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
		s.note("to continue, repeat the command with --resume --out %s", s.settings.Out)
		return interrupted
	}
	return r.verdict(outcome)
}

// sweepInto measures a sweep into its directory. An interrupt or the loss of a host ends it early; without an
// outcome nothing was measured.
func (s *session) sweepInto(ctx context.Context, r *sweepRun) (*sweep.Outcome, error) {
	if err := s.checkRoom(r.plan.Size(r.dir)); err != nil {
		return nil, err
	}
	plugins, err := s.plugins(r)
	if err != nil {
		return nil, err
	}
	s.note("%s, in %s", listing.PlanSummary(r.plan, s.beside()), r.dir)
	progress := terminal.NewSweepProgress(s.stderr)
	defer progress.Close()
	outcome, interrupted := s.engine.Sweep(ctx, r.plan, plugins, sweep.Options{
		Dir: r.dir, Resume: r.resume, Watcher: progress, Limit: r.spec.Limit, CellLimit: r.spec.CellLimit,
		Without: func(names []string) (*sweep.Plan, error) { return sweep.Expand(r.spec, r.transports.without(names)) },
	}, progress)
	var changed *sweep.ChangedError
	if outcome == nil && (errors.As(interrupted, &changed) || errors.Is(interrupted, sweep.ErrExists)) {
		return nil, usagef("%v", interrupted)
	}
	return outcome, interrupted
}

// plugins returns the plugins of a sweep.
func (s *session) plugins(r *sweepRun) (experiment.Plugins, error) {
	plugins := experiment.Plugins{}
	for i := range r.plan.Cells {
		name := r.plan.Cells[i].Config.Transport
		if plugins[name] != nil {
			continue
		}
		var err error
		if plugins[name], err = s.plugin(r.transports[name]); err != nil {
			return nil, err
		}
	}
	return plugins, nil
}

// verdict returns the error of a sweep.
func (r *sweepRun) verdict(outcome *sweep.Outcome) error {
	switch {
	case outcome.Failed > 0:
		code := ExitInternal
		if outcome.Invalid == outcome.Failed {
			code = ExitThreshold
		}
		return exitf(code, "%d of %d cells failed; --resume retries them", outcome.Failed, len(r.plan.Cells))
	case outcome.OutOfTime:
		return exitf(ExitTooLittle, "the time limit ended the sweep with %d of %d cells complete; --resume continues", outcome.Complete, len(r.plan.Cells))
	case r.named && outcome.Unavailable > 0:
		return fmt.Errorf("%d of %d cells cannot be measured here; the table has the reasons", outcome.Unavailable, len(r.plan.Cells))
	}
	cells := outcome.Set.Cells
	for i := range cells {
		for _, w := range cells[i].Warnings {
			if w.Severity == result.Error {
				return exitf(ExitThreshold, "%s: check %s failed: %s", set.LabelsOf(cells).Of(cells[i].Config), w.Name, w.Message)
			}
		}
	}
	if outcome.Complete == 0 {
		return errors.New("no cell was measured; the table has the reasons")
	}
	return nil
}
