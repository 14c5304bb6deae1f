package measure

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/agents"
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
	"transportbench/core/base/cpulist"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/study/micro"
)

// microDuration is the default time of one measurement.
const microDuration = "200ms"

// setupDuration is the default time of the setups with one number of connections.
const setupDuration = "2s"

// maxConnections bounds the connections of a setup: both ends are in one process.
const maxConnections = 4096

func checkConnections(list []int, alone bool) error {
	if alone {
		return app.Usagef("--connections is for the measurement %s", record.MicroSetup)
	}
	if len(list) == 0 || len(list) > 16 {
		return app.Usagef("--connections: give 1 to 16 numbers")
	}
	for _, n := range list {
		if n < 1 || n > maxConnections {
			return app.Usagef("--connections: %d is out of range (1 to %d)", n, maxConnections)
		}
	}
	return nil
}

// microFlags are the flags of micro.
type microFlags struct {
	cpus        string
	counters    bool
	connections []int
}

func microCommand(a *app.App) *cobra.Command {
	f := new(microFlags)
	cmd := &cobra.Command{
		Use: "micro NAME [MEASUREMENT...]", Short: "Measure what a transport is built on",
		Long: `micro measures what a transport is built on, without the transport: for example
the operations of an RDMA device, or the rings of shared memory. Without names of
measurements it takes all. It is not a run: it has no load and no checks.

With --out it stores the readings as a file, which diff and report read like the
results of runs.

micro NAME setup, which every transport has, sets up two endpoints in one process
with some connections, makes the first call on each and closes them, again and
again for --duration (2s by default), once for each number of --connections. It shows the median of
each phase, and whether it takes longer from time to time, as with libraries that
keep something of each. With --hosts and the like the endpoints are two ranks on two
hosts, which start anew for each time. The other measurements are of one host.`,
		Example: `  transportbench micro copyrpc
  transportbench micro shm spsc --cpus 0,1
  transportbench micro shm spsc --repeats 6 --out micro
  transportbench micro sockets setup --connections 1,10,100
  transportbench micro copyrpc setup --connections 1 --duration 30s`,
		ValidArgsFunction: complete.Micro,
		Args:              app.Takes(1, 0, "the name of a transport (plugins list has them)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return takeReadings(a, cmd, f, args)
		},
	}
	options.AddMicro(cmd.Flags(), microDuration)
	options.AddHosts(cmd.Flags())
	cmd.Flags().StringVar(&f.cpus, "cpus", "",
		"processors of the measuring threads, in ascending order: 0,2 (default: all)")
	cmd.Flags().BoolVar(&f.counters, "counters", false, "count cycles, instructions and cache "+
		"misses during each reading, if the processor does")
	cmd.Flags().IntSliceVar(&f.connections, "connections", []int{1, 10, 100},
		"of setup: numbers of connections, a comma list")
	_ = cmd.RegisterFlagCompletionFunc(options.KeySet, complete.Set)
	return cmd
}

func takeReadings(a *app.App, cmd *cobra.Command, f *microFlags, args []string) error {
	s, study, err := newMicro(a, cmd, f, args)
	if err != nil {
		return err
	}
	setup := slices.Equal(study.Request.Names, []string{record.MicroSetup})
	if !setup {
		err = agents.Alone(s.settings, "micro measures one host, except with "+record.MicroSetup)
	} else {
		defer func() { s.leave() }()
		err = s.joinSetup(cmd.Context(), f, study)
	}
	if err != nil {
		return err
	}
	repeats := s.settings.Config.Repeats
	s.Note("%s of each measurement, at least %s", format.Count(repeats, "repeat"),
		format.Left(study.Expected(repeats)))
	if err := study.Run(cmd.Context(), repeats); err != nil {
		return err
	}
	phases, list := micro.Phases(study.Rounds), study.Medians()
	switch {
	case s.settings.JSON && setup:
		err = app.WriteJSON(a.Stdout, phases)
	case s.settings.JSON:
		err = app.WriteJSON(a.Stdout, list)
	case setup:
		terminal.Print(a.Stdout, micro.SetupPhases(phases))
	default:
		a.Print(tables.Measurements(list))
	}
	if err != nil || s.settings.Out == "" {
		return err
	}
	path, err := study.Write("micro-" + study.Plugin.Identity.Name)
	if err == nil {
		a.Note("%s", path)
	}
	return err
}

// newMicro checks arguments and flags, and returns what measures.
func newMicro(a *app.App, cmd *cobra.Command, f *microFlags, args []string) (*session,
	*micro.Study, error) {
	names := args[1:]
	setup := slices.Equal(names, []string{record.MicroSetup})
	if slices.Contains(names, record.MicroSetup) != setup {
		return nil, nil, app.Usagef("%s: measure it alone, without other measurements",
			record.MicroSetup)
	}
	if setup && f.counters {
		return nil, nil, app.Usagef("--counters is not for the measurement %s", record.MicroSetup)
	}
	alone := cmd.Flags().Changed("connections") && !setup
	if err := checkConnections(f.connections, alone); err != nil {
		return nil, nil, err
	}
	initial := map[string]string{"duration": microDuration, "repeats": "1", options.KeyOut: ""}
	if setup {
		initial["duration"] = setupDuration
	}
	// The flag cpus is a list, and not that of a run, which has roles.
	s, err := open(a, cmd, cmd.Flags(), initial, map[string]string{"cpus": ""})
	if err != nil {
		return nil, nil, err
	}
	// of microbenchmarks that name one
	s.engine.Beside = experiment.Beside{StateOnly: true, Witness: true}
	cpus, err := checkCPUs(f.cpus)
	if err != nil {
		return nil, nil, err
	}
	p, err := s.findPlugin(cmd.Context(), args[0])
	if err != nil {
		return nil, nil, err
	}
	if err := checkNames(p, names); err != nil {
		return nil, nil, err
	}
	study := &micro.Study{Engine: s.engine, Plugin: p, Request: record.MicroRequest{
		Options: s.settings.Set, Names: names, Duration: time.Duration(s.settings.Config.Duration),
		CPUs: cpus, Counters: f.counters, Connections: f.connections,
	}}
	if s.settings.Out != "" {
		if err := result.CheckWritable(s.settings.Out); err != nil {
			return nil, nil, &config.SourceError{Problem: err.Error(), Err: err}
		}
		study.Keep(f.cpus)
	}
	return s, study, nil
}

// joinSetup waits for the two hosts of a setup, if the settings ask for hosts.
func (s *session) joinSetup(ctx context.Context, f *microFlags, study *micro.Study) error {
	if err := s.join(ctx); err != nil || s.cluster == nil {
		return err
	}
	name := study.Plugin.Identity.Name
	switch n := len(s.cluster.Names()); {
	case n != 2:
		return app.Usagef("micro %s %s is between two hosts, and %d joined", name,
			record.MicroSetup, n)
	case f.cpus != "":
		return app.Usagef("--cpus is for one host; use taskset for the agents")
	}
	plugins, err := s.plugins(ctx, []string{name}, nil)
	if err != nil {
		return err
	}
	if reason := plugins[0].Unavailable(); reason != "" {
		return fmt.Errorf("%s: %s", name, reason)
	}
	jobs, err := experiment.Runs(plugins, config.Default(), s.settings.Set)
	if err != nil {
		return err
	}
	study.Own, study.Plugin = jobs[0].Config.Options, jobs[0].Plugin
	return nil
}

// checkCPUs reads a list of processors, which this process must be allowed to use.
func checkCPUs(text string) ([]int, error) {
	cpus, err := cpulist.Parse(text)
	if err != nil {
		return nil, &config.Error{Option: "cpus", Problem: err.Error()}
	}
	allowed, err := machine.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	for _, cpu := range cpus {
		if !slices.Contains(allowed, cpu) {
			return nil, &config.Error{Option: "cpus",
				Problem: fmt.Sprintf("processor %d is offline or not allowed here; use some of %s",
					cpu, cpulist.Format(allowed))}
		}
	}
	return cpus, nil
}

// checkNames checks names of microbenchmarks, unless the plugin is too old to list its own.
func checkNames(p *experiment.Plugin, names []string) error {
	known := p.Microbenchmarks
	for _, name := range names {
		if len(known) > 0 && name != record.MicroSetup && !slices.Contains(known, name) {
			return app.Usagef("%s has no microbenchmark %q; it has %s, and %s alone%s",
				p.Identity.Name, name, strings.Join(known, ", "), record.MicroSetup,
				suggest.For(name, append(slices.Clone(known), record.MicroSetup)))
		}
	}
	return nil
}
