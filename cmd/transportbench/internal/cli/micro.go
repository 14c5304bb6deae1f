package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core/base/config"
	"transportbench/core/base/cpulist"
	"transportbench/core/base/machine"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/witness"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// microDuration is the default time of one measurement.
const microDuration = "200ms"

// setupDuration is the default time of the setups with one number of connections.
const setupDuration = "2s"

// mostConnections bounds the connections of a setup: both ends are in one process.
const mostConnections = 4096

func checkConnections(list []int, alone bool) error {
	if alone {
		return usagef("--connections is for the measurement %s", plugin.MicroSetup)
	}
	if len(list) == 0 || len(list) > 16 {
		return usagef("--connections: give 1 to 16 numbers")
	}
	for _, n := range list {
		if n < 1 || n > mostConnections {
			return usagef("--connections: %d is out of range (1 to %d)", n, mostConnections)
		}
	}
	return nil
}

// setupPhases divides rounds of setups into the series of their phases, by the number of connections.
func setupPhases(rounds []*plugin.SetupReading) (phases []present.SetupPhase) {
	for len(rounds) > 0 {
		n := rounds[0].Connections
		end := slices.IndexFunc(rounds, func(r *plugin.SetupReading) bool { return r.Connections != n })
		if end < 0 {
			end = len(rounds)
		}
		add := func(name, unit string, of func(*plugin.SetupReading) float64) {
			var values []float64
			for _, r := range rounds[:end] {
				if v := of(r); v > 0 {
					values = append(values, v)
				}
			}
			if len(values) > 0 {
				phases = append(phases, present.NewSetupPhase(int(n), name, unit, values))
			}
		}
		add(result.SetupOpen, "ns", func(r *plugin.SetupReading) float64 { return float64(r.OpenNS + r.WorkersNS) })
		add(result.SetupRegister, "ns/MiB", func(r *plugin.SetupReading) float64 {
			return float64(r.RegisterNS) / float64(max(r.RegisteredBytes, 1)) * (1 << 20)
		})
		add(result.SetupConnect, "ns", func(r *plugin.SetupReading) float64 { return float64(r.ConnectNS) / float64(max(r.Connections, 1)) })
		add(result.SetupConnectAll, "ns", func(r *plugin.SetupReading) float64 { return float64(r.ConnectAllNS) })
		add(result.FirstCall, "ns", func(r *plugin.SetupReading) float64 { return float64(r.FirstCallNS) })
		add(result.Teardown, "ns", func(r *plugin.SetupReading) float64 { return float64(r.CloseNS) })
		rounds = rounds[end:]
	}
	return phases
}

// micro is the command of that name.
type micro struct {
	*app
	cpus        string // flag
	connections []int  // flag

	settings    *options.Settings
	entry       *entry
	request     plugin.MicroRequest
	list        []transport.Measurement
	rounds      []*plugin.SetupReading
	unwitnessed bool     // why was said
	set         *set.Set // nil without --out
	like        set.Cell // what all cells of set have in common
}

func (a *app) microCommand() *cobra.Command {
	c := &micro{app: a}
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
		ValidArgsFunction: a.completeMicro,
		Args:              takes(1, 0, "the name of a transport (plugins list has them)"),
		RunE:              c.run,
	}
	options.AddMicro(cmd.Flags(), microDuration)
	options.AddHosts(cmd.Flags())
	cmd.Flags().StringVar(&c.cpus, "cpus", "", "processors of the measuring threads, in ascending order: 0,2 (default: all)")
	cmd.Flags().IntSliceVar(&c.connections, "connections", []int{1, 10, 100}, "of setup: numbers of connections, a comma list")
	_ = cmd.RegisterFlagCompletionFunc(options.KeySet, a.completeSet)
	return cmd
}

func (c *micro) run(cmd *cobra.Command, args []string) error {
	setup, err := c.check(cmd, args)
	if err != nil {
		return err
	}
	take := c.repeat
	if setup {
		between, err := c.joinSetup(cmd.Context())
		defer between.leave()
		if err != nil {
			return err
		}
		if between.cluster != nil {
			take = between.repeat
		}
	} else if err := (&session{app: c.app, settings: c.settings}).alone("micro measures one host, except with " + plugin.MicroSetup); err != nil {
		return err
	}
	for range c.settings.Config.Repeats {
		if err := take(cmd.Context()); err != nil {
			return err
		}
	}
	phases := setupPhases(c.rounds)
	c.list = medians(c.list)
	switch {
	case c.settings.JSON && setup:
		err = writeJSON(c.stdout, phases)
	case c.settings.JSON:
		err = writeJSON(c.stdout, c.list)
	case setup:
		present.SetupPhases(c.stdout, phases)
	default:
		present.Measurements(c.stdout, c.list)
	}
	if err != nil || c.set == nil {
		return err
	}
	path, err := c.set.WriteFile(c.settings.Out, "micro-"+c.entry.Name)
	if err == nil {
		c.note("%s", path)
	}
	return err
}

// check checks arguments and flags, and makes the request. setup reports whether it is for
// [plugin.MicroSetup].
func (c *micro) check(cmd *cobra.Command, args []string) (setup bool, err error) {
	names := args[1:]
	setup = slices.Equal(names, []string{plugin.MicroSetup})
	if slices.Contains(names, plugin.MicroSetup) != setup {
		return setup, usagef("%s: measure it alone, without other measurements", plugin.MicroSetup)
	}
	if err := checkConnections(c.connections, cmd.Flags().Changed("connections") && !setup); err != nil {
		return setup, err
	}
	initial := map[string]string{"duration": microDuration, "repeats": "1", options.KeyOut: ""}
	if setup {
		initial["duration"] = setupDuration
	}
	// The flag cpus is a list, and not that of a run, which has roles.
	if c.settings, err = c.app.settings(cmd, cmd.Flags(), initial, map[string]string{"cpus": ""}); err != nil {
		return setup, err
	}
	cpus, err := checkCPUs(c.cpus)
	if err != nil {
		return setup, err
	}
	if c.entry, err = c.findArgument(cmd.Context(), c.settings.PluginDir, args[0]); err != nil {
		return setup, err
	}
	if err := c.checkNames(names); err != nil {
		return setup, err
	}
	c.request = plugin.MicroRequest{Options: c.settings.Set, Names: names, Duration: time.Duration(c.settings.Config.Duration),
		CPUs: cpus, Connections: c.connections}
	if c.settings.Out == "" {
		return setup, nil
	}
	if err := result.CheckWritable(c.settings.Out); err != nil {
		return setup, &config.SourceError{Problem: err.Error(), Err: err}
	}
	return setup, c.newSet()
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
			return nil, &config.Error{Option: "cpus", Problem: fmt.Sprintf("processor %d is offline or not allowed here; use some of %s",
				cpu, cpulist.Format(allowed))}
		}
	}
	return cpus, nil
}

// checkNames checks names of microbenchmarks, unless the plugin is too old to list its own.
func (c *micro) checkNames(names []string) error {
	known := c.entry.description.Microbenchmarks
	for _, name := range names {
		if len(known) > 0 && name != plugin.MicroSetup && !slices.Contains(known, name) {
			return usagef("%s has no microbenchmark %q%s; it has %s, and %s alone", c.entry.Name, name,
				transport.SuggestionFor(name, append(slices.Clone(known), plugin.MicroSetup)), strings.Join(known, ", "), plugin.MicroSetup)
		}
	}
	return nil
}

// newSet makes the set of the readings.
func (c *micro) newSet() error {
	identity, err := c.entry.identity()
	if err != nil {
		return err
	}
	tool := experiment.Tool()
	c.set = set.New()
	c.like = set.Cell{
		Config:    map[string]string{"transport": c.entry.Name, "duration": c.settings.Config.Duration.String()},
		Tool:      &tool,
		Plugin:    set.Plugin{Name: identity.Name, Version: identity.Version, SHA256: identity.SHA256, RuntimeDigest: identity.RuntimeDigest},
		StartedAt: c.set.CreatedAt,
	}
	for name, value := range c.settings.Set {
		c.like.Config["options."+name] = value
	}
	if c.cpus != "" {
		c.like.Config["cpus"] = c.cpus
	}
	return nil
}

// repeat takes every measurement once, in a process of its own.
func (c *micro) repeat(ctx context.Context) error {
	environment := machine.ReadEnvironment()
	before := len(c.rounds)
	var list []transport.Measurement
	err := c.entry.Micro(ctx, c.request, func(a plugin.MicroAnswer) error {
		if a.Setup != nil {
			c.rounds = append(c.rounds, a.Setup)
			return nil
		}
		list = append(list, a.Measurement)
		return nil
	})
	if err != nil {
		return err
	}
	for i := range list {
		if err := c.readWitness(ctx, &list[i]); err != nil {
			return err
		}
	}
	c.list = append(c.list, list...)
	if c.set == nil {
		return nil
	}
	for _, m := range list {
		if err := c.set.AddMicro(c.like, environment, m); err != nil {
			return err
		}
	}
	return c.addSetups(c.rounds[before:], environment)
}

// addSetups adds the medians of rounds to the set.
func (c *micro) addSetups(rounds []*plugin.SetupReading, environment machine.Environment) error {
	setups := map[int]map[string]float64{} // the medians of the metrics, by the number of connections
	for _, p := range setupPhases(rounds) {
		if setups[p.Connections] == nil {
			setups[p.Connections] = map[string]float64{}
		}
		setups[p.Connections][p.Metric] = p.Median
	}
	for _, n := range slices.Sorted(maps.Keys(setups)) {
		options := map[string]string{set.MicroOption: plugin.MicroSetup, "connections": strconv.Itoa(n)}
		if err := c.set.AddReading(c.like, environment, options, setups[n]); err != nil {
			return err
		}
	}
	return nil
}

// readWitness runs the tool of the field that a reading names, if it is installed.
func (c *micro) readWitness(ctx context.Context, m *transport.Measurement) error {
	if len(m.Witness) == 0 || c.unwitnessed {
		return nil
	}
	missing, err := witness.Beside(ctx, m, c.request.CPUs)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		c.note("%s: no witness: %v", m.Name, err)
	case missing != "":
		c.unwitnessed = true
		c.note("no witness: %s", missing)
	}
	return nil
}

// medians returns one reading for each name and size, in order of appearance, with the medians of the
// repeats.
func medians(list []transport.Measurement) []transport.Measurement {
	type key struct {
		name string
		size int
	}
	var order []key
	repeats := map[key][]transport.Measurement{}
	for _, m := range list {
		k := key{m.Name, m.Size}
		if repeats[k] == nil {
			order = append(order, k)
		}
		repeats[k] = append(repeats[k], m)
	}
	out := []transport.Measurement{}
	for _, k := range order {
		all := repeats[k]
		m := all[0]
		for _, field := range []func(*transport.Measurement) *float64{
			func(m *transport.Measurement) *float64 { return &m.Latency },
			func(m *transport.Measurement) *float64 { return &m.LatencyP99 },
			func(m *transport.Measurement) *float64 { return &m.Rate },
			func(m *transport.Measurement) *float64 { return &m.Bandwidth },
			func(m *transport.Measurement) *float64 { return &m.Floor },
			func(m *transport.Measurement) *float64 { return &m.RateFloor },
			func(m *transport.Measurement) *float64 { return &m.WitnessLatency },
			func(m *transport.Measurement) *float64 { return &m.WitnessRate },
		} {
			var values []float64
			for i := range all {
				values = append(values, *field(&all[i]))
			}
			slices.Sort(values)
			*field(&m) = (values[(len(values)-1)/2] + values[len(values)/2]) / 2
		}
		m.Samples = 0
		for i := range all {
			m.Samples += all[i].Samples
		}
		out = append(out, m)
	}
	return out
}

// storeMicro measures microbenchmarks of a transport and stores the readings in the directory of
// results.
func (s *session) storeMicro(ctx context.Context, transport string, request plugin.MicroRequest, repeats int, file string) (err error) {
	settings := *s.settings
	settings.Set, settings.Config.Duration = request.Options, config.Duration(request.Duration)
	c := &micro{app: s.app, settings: &settings, request: request, unwitnessed: !settings.Witness}
	if c.entry, err = s.findArgument(ctx, settings.PluginDir, transport); err != nil {
		return err
	}
	if err := c.newSet(); err != nil {
		return err
	}
	for range repeats {
		if err := c.repeat(ctx); err != nil {
			return err
		}
	}
	_, err = c.set.WriteFile(settings.Out, file)
	return err
}
