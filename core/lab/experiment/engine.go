package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"transportbench/core"
	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/experiment/trace"
	"transportbench/core/lab/experiment/witness"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// What users of the engine see of a single run, so that they need not know the runner.
type (
	// Observer sees the progress of a run.
	Observer = runner.Observer
	// RunStatus is what an Observer sees.
	RunStatus = runner.Status
	// Beside says what a run measures beside its windows.
	Beside = runner.Beside
	// Launcher starts ranks.
	Launcher = runner.Launcher
	// Process is a rank that was started.
	Process = runner.Process
)

// StepRepeat is the step of a run in which a repeat is measured.
const StepRepeat = runner.StepRepeat

// Engine makes runs.
type Engine struct {
	// Make makes one run: [runner.Run], except in tests.
	Make func(context.Context, runner.Request, runner.Observer) (*result.Result, error)
	// Find finds the plugin of a transport.
	Find func(ctx context.Context, transport string) (*Plugin, error)
	// Argv and Began are of the command, for results.
	Argv  []string
	Began time.Time
	// Dir is the directory of results.
	Dir string
	// Beside is what all runs measure beside their windows.
	Beside runner.Beside
	// Traces has the traces that runs replay.
	Traces *trace.Cache
	// AllowMixed allows plugins of another version of the runtime.
	AllowMixed   bool
	StartTimeout time.Duration // as in runner.Request
	// Note tells the user something that no result says.
	Note func(text string)
	// Log gets what plugins log beside other progress.
	Log io.Writer
	// Place puts the ranks of a run on other hosts. It is nil to run on this one.
	Place func(*runner.Request) error

	CPUs        []machine.CPU // that this process may use
	Limits      machine.Limits
	Environment machine.Environment // of this host, or of the others

	noted []string // what noteOnce has said
}

// Tool identifies this program in results.
func Tool() result.Tool {
	return result.Tool{Version: core.Version, Revision: core.BuildRevision(), Go: runtime.Version()}
}

// ReadMachine reads what there is to know of this host before a run, and checks that it can start
// ranks.
func (e *Engine) ReadMachine() error {
	var err error
	if e.CPUs, err = machine.AllowedTopology(); err != nil {
		return err
	}
	if e.Place == nil {
		e.Environment = machine.ReadEnvironment()
	}
	e.Limits = machine.ReadLimits()
	return runner.CheckStart(e.Limits)
}

// Run is one run to make.
type Run struct {
	Plugin *Plugin
	Config config.Config
	// Began is when the run began for the user; zero is now.
	Began time.Time
	// Launcher starts the ranks.
	Launcher runner.Launcher
	// Wrap, unless it is nil, returns a launcher around the one of the run.
	Wrap func(runner.Launcher) runner.Launcher
	// Keep and Trace are as in [runner.Request].
	Keep  func(repeats int, soFar func() (*result.Result, error)) error
	Trace func([]record.ThreadTrace)
}

// Run makes a run. It notes once for each transport why its witness is missing.
func (e *Engine) Run(ctx context.Context, run Run, obs runner.Observer) (*result.Result, error) {
	req, err := e.request(run)
	if err != nil {
		return nil, err
	}
	if err := e.impair(&req, run.Plugin.Info); err != nil {
		return nil, err
	}
	if run.Wrap != nil {
		req.Launcher = run.Wrap(req.Launcher)
	}
	r, err := e.Make(ctx, req, obs)
	if r != nil && r.Witness != nil && r.Witness.Missing != "" {
		e.noteOnce(fmt.Sprintf("%s: no reference tool: %s", run.Plugin.Identity.Name,
			r.Witness.Missing))
	}
	return r, explainAddress(err, run.Config, &req, run.Plugin.Info.Roles)
}

// request returns what the runner needs for a run, without its network.
func (e *Engine) request(run Run) (runner.Request, error) {
	if run.Began.IsZero() {
		run.Began = time.Now()
	}
	p := run.Plugin
	req := runner.Request{
		Config:       run.Config,
		CPUs:         e.CPUs,
		Launcher:     run.Launcher,
		Began:        run.Began,
		Argv:         e.Argv,
		Tool:         Tool(),
		Plugin:       p.Identity,
		Environment:  e.Environment,
		Capabilities: p.Info.Capabilities, Limits: p.Info.Limits, Needs: p.Info.Needs,
		Roles: p.Info.Roles, References: p.Info.References,
		System:       e.Limits,
		Beside:       e.Beside,
		StartTimeout: e.StartTimeout, Keep: run.Keep, Trace: run.Trace,
	}
	if run.Config.Replays() {
		if e.Place != nil {
			return req,
				errors.New("a trace is replayed on one host, where its file is: leave out " +
					"replay, or the options for other hosts")
		}
		req.Part, req.Replay = e.Traces.Find(&run.Config)
	}
	if e.Place != nil {
		return req, e.Place(&req)
	}
	return req, nil
}

// ReadWitness runs the tool of the field that a microbenchmark's reading names, if runs have
// witnesses and it is installed.
func (e *Engine) ReadWitness(ctx context.Context, m *transport.Measurement, cpus []int) error {
	if len(m.Witness) == 0 || !e.Beside.Witness {
		return nil
	}
	missing, err := witness.Beside(ctx, m, cpus)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		e.Note(fmt.Sprintf("%s: no reference tool: %v", m.Name, err))
	case missing != "":
		e.noteOnce("no reference tool: " + missing)
	}
	return nil
}

// noteOnce notes what holds for several runs.
func (e *Engine) noteOnce(text string) {
	if !slices.Contains(e.noted, text) {
		e.noted = append(e.noted, text)
		e.Note(text)
	}
}
