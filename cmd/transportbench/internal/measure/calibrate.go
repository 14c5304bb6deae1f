package measure

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/agents"
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/printable"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
	"transportbench/core/lab/study/calibrate"
)

// calibrateFlags are the flags of calibrate.
type calibrateFlags struct{ quick, dryRun bool }

func calibrateCommand(a *app.App) *cobra.Command {
	f := new(calibrateFlags)
	cmd := &cobra.Command{
		Use: "calibrate", Short: "Measure how far the results of this machine can be trusted",
		Args: app.NoArgs,
		Long: `calibrate measures the instrument itself on this machine. It injects known delays,
rates and stalls into the transport "calibration" and reports how well they are
recovered, what timing operations costs, the smallest delay that is seen, how often
a configuration differs from itself, and how often a known change is found.

The full calibration bounds the rates of false and of found differences; --quick
takes under two minutes and does not. The calibration is also kept in the user's
state directory, where doctor, diff and report find it.

` + app.ExitHelp,
		Example: `  transportbench calibrate --quick
  transportbench calibrate
  transportbench calibrate --dry-run
  transportbench calibrate show`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := map[string]string{options.KeyOut: filepath.Join(options.DefaultOut,
				"calibration")}
			s, err := open(a, cmd, cmd.Flags(), out, nil)
			if err != nil {
				return err
			}
			s.engine.Beside.StateOnly = true
			return s.calibrate(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	options.AddOut(flags, filepath.Join(options.DefaultOut, "calibration"))
	options.AddJSON(flags)
	flags.BoolVar(&f.quick, "quick", false, "measure less, in under two minutes")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the experiments and the expected time only")
	cmd.AddCommand(calibrateShowCommand(a), calibratePairsCommand(a))
	return cmd
}

func calibrateShowCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [FILE|DIRECTORY]",
		Short: "Show a calibration, by default the last one of this machine",
		Args:  app.Takes(0, 1, "at most one file or directory"),
		RunE: a.WithSettings(func(_ *cobra.Command, s *options.Settings, args []string) error {
			d, err := lastOrNamed(a, args)
			if err != nil {
				return err
			}
			return showCalibration(a, d, s.JSON)
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

// lastOrNamed reads the calibration that the argument names, or the last one of this machine.
func lastOrNamed(a *app.App, args []string) (*calibration.Document, error) {
	if len(args) == 1 {
		path, read := args[0], calibration.ReadArgument
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path, read = filepath.Join(path, calibration.FileName), calibration.Read
		}
		d, err := read(path)
		if err != nil {
			return nil, app.BadInput(err)
		}
		return d, nil
	}
	identity, err := set.Flatten(machine.ReadEnvironment().Identity)
	if err != nil {
		return nil, err
	}
	found := new(calibration.Finder).Find(identity)
	if found.Document == nil {
		return nil, app.Usagef("this machine has no calibration; make one with %s calibrate",
			a.Program)
	}
	return found.Document, nil
}

func showCalibration(a *app.App, d *calibration.Document, asJSON bool) error {
	if asJSON {
		return d.Encode(a.Stdout)
	}
	terminal.Print(a.Stdout, findings.Calibration(d))
	return nil
}

func (s *session) calibrate(ctx context.Context, f *calibrateFlags) error {
	if err := agents.Alone(s.settings, "calibrate measures one host"); err != nil {
		return err
	}
	m, err := s.calibrationPlugin(ctx)
	if err != nil {
		return err
	}
	plan, err := calibrate.NewPlan(f.quick, calibrate.NominalBases(m), m)
	if err != nil {
		return explainSpec(err)
	}
	if f.dryRun {
		return s.planCalibration(plan)
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := s.announce(f, plan, m); err != nil {
		return err
	}
	path := filepath.Join(s.settings.Out, calibration.FileName)
	last, _ := calibration.Read(path)
	d, err := s.runCalibration(ctx, f, m)
	if err == nil {
		err = keepPairsOf(last, d, path)
	}
	if err != nil {
		return err
	}
	if err := showCalibration(s.App, d, s.settings.JSON); err != nil {
		return err
	}
	s.Note("calibration in %s", path)
	s.keepCalibration(d)
	return nil
}

// planCalibration shows what would be measured.
func (s *session) planCalibration(plan *calibrate.Plan) error {
	if s.settings.JSON {
		return app.WriteJSON(s.Stdout, struct {
			*calibrate.Plan
			Launches int           `json:"launches"`
			Expected time.Duration `json:"expected_ns"`
		}{plan, plan.Launches(), plan.Expected()})
	}
	terminal.Print(s.Stdout, listing.CalibrationPlan(plan))
	return nil
}

// calibrationPlugin finds the plugin that injects what is recovered, and that of sockets if this
// machine has it.
func (s *session) calibrationPlugin(ctx context.Context) (experiment.Plugins, error) {
	spec := experiment.NewSpec()
	spec.Base[options.KeyTransport] = calibrate.Transport
	sweep, err := s.plan(ctx, spec, nil, true)
	var wrong *config.Error
	if errors.As(err, &wrong) { // it names a flag that calibrate does not have
		return nil, app.Usagef("calibrate needs the plugin of transport %s: %s",
			calibrate.Transport, wrong.Problem)
	}
	if err != nil {
		return nil, err
	}
	if more, err := s.plugins(ctx, []string{calibrate.SocketTransport}, nil); err == nil {
		for _, p := range more {
			sweep.Plugins[p.Identity.Name] = p
		}
	}
	return sweep.Plugins, nil
}

// announce states the expected time before anything is measured, and what is replaced.
func (s *session) announce(f *calibrateFlags, plan *calibrate.Plan, m experiment.Plugins) error {
	text := listing.CalibrationSummary(plan)
	if !f.quick {
		quick, err := calibrate.NewPlan(true, calibrate.NominalBases(m), m)
		if err != nil {
			return err
		}
		text += "; --quick takes " + format.Left(quick.Expected())
	}
	s.Note("%s, in %s", text, s.settings.Out)
	if path := filepath.Join(s.settings.Out, calibration.FileName); isFile(path) {
		s.Note("it replaces the calibration in %s", path)
	}
	return nil
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (s *session) runCalibration(ctx context.Context, f *calibrateFlags,
	m experiment.Plugins) (*calibration.Document, error) {
	progress := terminal.NewCalibrationProgress(s.Stderr)
	defer progress.Close()
	return calibrate.Run(ctx, calibrate.Options{
		Dir: s.settings.Out, Quick: f.quick, Engine: s.engine, Plugins: m,
		Begin: progress.Begin, Log: progress,
		Load: func() (func(), error) { return machine.Spin(s.engine.CPUs) },
	})
}

// keepCalibration keeps d as the last calibration of this machine, unless it is a quick one and
// there is a full one. If that fails, d is still in its own file.
func (s *session) keepCalibration(d *calibration.Document) {
	path, err := calibration.StatePath(d.Environment.Identity)
	if err != nil {
		s.Note("it is not kept as the last of this machine: %s", printable.Joined(err))
		return
	}
	if last, err := calibration.Read(path); d.Quick && err == nil && !last.Quick {
		s.Note("the full calibration of this machine is kept: %s", path)
		return
	}
	if err := calibration.Write(path, d); err != nil {
		s.Note("it is not kept as the last of this machine: %s", printable.Joined(err))
	}
}
