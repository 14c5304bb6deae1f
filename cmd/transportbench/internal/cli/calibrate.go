package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
	"transportbench/core/lab/study/calibrate"
)

// calibrateFlags are the flags of calibrate.
type calibrateFlags struct{ quick, resume, dryRun bool }

func (a *app) calibrateCommand() *cobra.Command {
	f := new(calibrateFlags)
	cmd := &cobra.Command{
		Use: "calibrate", Short: "Measure how far the results of this machine can be trusted",
		Args: noArgs,
		Long: `calibrate measures the instrument itself on this machine. It injects known delays,
rates and stalls into the transport "calibration" and reports how well they are
recovered, what timing operations costs, the smallest delay that is seen, how often
a configuration differs from itself, and how often a known change is found.

The full calibration bounds the rates of false and of found differences; --quick
takes under two minutes and does not. Every finished launch is on disk: after
Ctrl-C, a crash or a power cut, the same command with --resume continues. The
calibration is also kept in the user's state directory, where doctor, diff and
report find it.

` + exitHelp,
		Example: `  transportbench calibrate --quick
  transportbench calibrate
  transportbench calibrate --resume
  transportbench calibrate --dry-run
  transportbench calibrate show`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := a.settings(cmd, cmd.Flags(), nil, nil)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed(options.KeyOut) && settings.Out == options.DefaultOut {
				settings.Out = filepath.Join(options.DefaultOut, "calibration")
			}
			s := &session{app: a, settings: settings, stateOnly: true}
			return s.calibrate(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	options.AddOut(flags, filepath.Join(options.DefaultOut, "calibration"))
	options.AddJSON(flags)
	flags.BoolVar(&f.quick, "quick", false, "measure less, in under two minutes")
	flags.BoolVar(&f.resume, "resume", false, "continue the calibration in --out")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the experiments and the expected time only")
	cmd.AddCommand(a.calibrateShowCommand())
	return cmd
}

func (a *app) calibrateShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [FILE|DIRECTORY]",
		Short: "Show a calibration, by default the last one of this machine",
		Args:  takes(0, 1, "at most one file or directory"),
		RunE: a.withSettings(func(_ *cobra.Command, s *options.Settings, args []string) error {
			d, err := a.lastOrNamed(args)
			if err != nil {
				return err
			}
			return a.showCalibration(d, s.JSON)
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

// lastOrNamed reads the calibration that the argument names, or the last one of this machine.
func (a *app) lastOrNamed(args []string) (*calibration.Document, error) {
	if len(args) == 1 {
		path, read := args[0], calibration.ReadArgument
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path, read = filepath.Join(path, calibration.FileName), calibration.Read
		}
		d, err := read(path)
		if err != nil {
			return nil, badInput(err)
		}
		return d, nil
	}
	identity, err := set.Flatten(machine.ReadEnvironment().Identity)
	if err != nil {
		return nil, err
	}
	found := new(calibration.Finder).Find(identity)
	if found.Document == nil {
		return nil, usagef("this machine has no calibration; make one with %s calibrate", a.program)
	}
	return found.Document, nil
}

func (a *app) showCalibration(d *calibration.Document, asJSON bool) error {
	if asJSON {
		return d.Encode(a.stdout)
	}
	terminal.Print(a.stdout, findings.Calibration(d))
	return nil
}

func (s *session) calibrate(ctx context.Context, f *calibrateFlags) error {
	if err := s.alone("calibrate measures one host"); err != nil {
		return err
	}
	m, err := s.calibrationPlugin(ctx)
	if err != nil {
		return err
	}
	plan, err := calibrate.NewPlan(f.quick, calibrate.NominalBase, m)
	if err != nil {
		return explainSpec(err)
	}
	if f.resume && !calibrate.Exists(s.settings.Out) {
		return usagef("--resume: %s has no unfinished calibration", s.settings.Out)
	}
	if f.dryRun {
		return s.planCalibration(f, plan, m)
	}
	if err := s.begin(); err != nil {
		return err
	}
	if err := s.checkRoom(plan.Size()); err != nil {
		return err
	}
	if !f.resume {
		if err := s.announce(f, plan, m); err != nil {
			return err
		}
	}
	d, err := s.runCalibration(ctx, f, m)
	if err != nil {
		//nolint:errorlint // explained wraps err, if it is another
		if explained := explainCalibration(err); explained != err {
			return explained
		}
		if calibrate.Exists(s.settings.Out) {
			s.note("to continue, repeat the command with --resume --out %s", s.settings.Out)
		}
		return err
	}
	if err := s.showCalibration(d, s.settings.JSON); err != nil {
		return err
	}
	s.note("calibration in %s", filepath.Join(s.settings.Out, calibration.FileName))
	s.keepCalibration(d)
	return nil
}

// explainCalibration returns wrong usage for a calibration that cannot be resumed or replaced.
func explainCalibration(err error) error {
	var changed *calibrate.ChangedError
	if errors.As(err, &changed) || errors.Is(err, calibrate.ErrExists) {
		return usagef("%v", err)
	}
	return err
}

// planCalibration shows what would be measured, or what is left of it.
func (s *session) planCalibration(f *calibrateFlags, plan *calibrate.Plan,
	m experiment.Plugins) error {
	left := calibrate.Left{Plan: plan, Launches: plan.Launches(), Expected: plan.Expected()}
	if f.resume {
		s.prepared().Environment = machine.ReadEnvironment()
		var err error
		if left, err = calibrate.Remaining(s.settings.Out, f.quick, s.engine, m); err != nil {
			return explainCalibration(err)
		}
	}
	if s.settings.JSON {
		return writeJSON(s.stdout, left)
	}
	terminal.Print(s.stdout, listing.CalibrationPlan(left.Plan))
	if f.resume {
		fmt.Fprintln(s.stdout, listing.CalibrationLeft(left.Plan, left.Launches, left.Expected))
	}
	return nil
}

// calibrationPlugin finds the plugin that injects what is recovered.
func (s *session) calibrationPlugin(ctx context.Context) (experiment.Plugins, error) {
	spec := experiment.NewSpec()
	spec.Base[options.KeyTransport] = calibrate.Transport
	m, err := s.pluginsOf(ctx, spec, nil)
	var wrong *config.Error
	if errors.As(err, &wrong) { // it names a flag that calibrate does not have
		return nil, usagef("calibrate needs the plugin of transport %s: %s", calibrate.Transport,
			wrong.Problem)
	}
	if err != nil {
		return nil, err
	}
	return m, m.Available()
}

// announce states the expected time before anything is measured, and what is replaced.
func (s *session) announce(f *calibrateFlags, plan *calibrate.Plan, m experiment.Plugins) error {
	text := listing.CalibrationSummary(plan)
	if !f.quick {
		quick, err := calibrate.NewPlan(true, calibrate.NominalBase, m)
		if err != nil {
			return err
		}
		text += "; --quick takes " + format.Left(quick.Expected())
	}
	s.note("%s, in %s", text, s.settings.Out)
	if path := filepath.Join(s.settings.Out, calibration.FileName); isFile(path) {
		s.note("it replaces the calibration in %s", path)
	}
	return nil
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (s *session) runCalibration(ctx context.Context, f *calibrateFlags,
	m experiment.Plugins) (*calibration.Document, error) {
	progress := terminal.NewCalibrationProgress(s.stderr)
	defer progress.Close()
	return calibrate.Run(ctx, calibrate.Options{
		Dir: s.settings.Out, Quick: f.quick, Resume: f.resume, Engine: s.engine, Plugins: m,
		Begin: progress.Begin, Log: progress,
		Load: func() (func() error, func(), error) { return spinOn(s.engine.CPUs) },
		Resumed: func(p *calibrate.Plan, launches int, left time.Duration) {
			s.note("%s, in %s", listing.CalibrationLeft(p, launches, left), s.settings.Out)
		},
	})
}

// keepCalibration keeps d as the last calibration of this machine, unless it is a quick one and
// there is a full one. If that fails, d is still in its own file.
func (s *session) keepCalibration(d *calibration.Document) {
	path, err := calibration.StatePath(d.Environment.Identity)
	if err != nil {
		s.note("it is not kept as the last of this machine: %s", oneLine(err))
		return
	}
	if last, err := calibration.Read(path); d.Quick && err == nil && !last.Quick {
		s.note("the full calibration of this machine is kept: %s", path)
		return
	}
	if err := calibration.Write(path, d); err != nil {
		s.note("it is not kept as the last of this machine: %s", oneLine(err))
	}
}
