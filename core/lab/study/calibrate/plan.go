package calibrate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/set"
)

// Transport is the name of the transport that injects what a calibration recovers.
const Transport = set.ReferenceTransport

// What the experiments inject.
const (
	exponentialMean = 10 * time.Microsecond
	bimodalDelay    = 2 * time.Microsecond
	bimodalSlow     = 50 * time.Microsecond
	bimodalEvery    = 20
	stallTime       = 74 * time.Millisecond
	stallEvery      = time.Second
	stallRate       = 20_000 // op/s of the open loop
	clientsDelay    = 5 * time.Millisecond
	clientsWork     = 500 * time.Microsecond // of the daemon for each request
)

// offEvery is the sampling that times no operation.
const offEvery = 1 << 30

type values = map[string]string

// with returns base with more options.
func with(base, more values) values {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}

// Bases are the times of the operations that the experiments of power slow down. That over sockets
// is 0 if the machine does not have the plugin.
type Bases struct {
	Memory  time.Duration `json:"memory_ns"`
	Sockets time.Duration `json:"sockets_ns,omitempty"`
}

// NominalBases are about the times of these operations, for a plan that is only shown.
func NominalBases(plugins experiment.Plugins) Bases {
	b := Bases{Memory: 300 * time.Nanosecond}
	if plugins[SocketTransport] != nil {
		b.Sockets = 9 * time.Microsecond
	}
	return b
}

// Plan is what a calibration measures.
type Plan struct {
	Quick bool `json:"quick"`
	// Bases are what the burned shares are of.
	Bases       Bases               `json:"bases"`
	Seed        uint64              `json:"order_seed"`
	Experiments []PlannedExperiment `json:"experiments"`
}

// PlannedExperiment is an experiment before it is measured. A round is one launch of every cell.
type PlannedExperiment struct {
	Name   string            `json:"name"`
	Loaded bool              `json:"loaded,omitempty"`
	Unit   string            `json:"unit"`
	Rounds int               `json:"rounds"`
	Known  []float64         `json:"known"`
	Cells  []experiment.Cell `json:"cells"`
}

// common are the options of every cell: short launches, because launches scatter more than windows.
var common = values{
	"transport": Transport, "profile": "echo", "in-flight": "1", "duration": "50ms",
	"warmup": "20ms",
}

// SocketTransport is the transport of the operation over sockets of the experiments of power.
const SocketTransport = "sockets"

// overSockets are the options of that operation. The one over memory has the common ones.
var overSockets = values{"transport": SocketTransport}

// NewPlan returns the plan of a full or quick calibration.
func NewPlan(quick bool, bases Bases, plugins experiment.Plugins) (*Plan, error) {
	b := planner{Plan: Plan{Quick: quick, Bases: bases, Seed: 1}, plugins: plugins}
	b.delays()
	b.distributions()
	b.rates()
	b.stalls()
	b.observer()
	b.add(calibration.ExperimentSelf, "", false, b.rounds(2000, 60), nil, []point{{}, {}, {}})
	b.power(calibration.ExperimentMemory, false, 20*20, bases.Memory, nil)
	if bases.Sockets > 0 {
		b.power(calibration.ExperimentSockets, false, 20*20, bases.Sockets, overSockets)
	}
	b.clients()
	if !quick {
		b.power(calibration.ExperimentMemoryLoaded, true, 10*20, bases.Memory, nil)
	}
	return &b.Plan, b.err
}

// cell resolves the options of one cell on top of the common ones.
func cell(plugins experiment.Plugins, options ...values) (*experiment.Cell, error) {
	spec := experiment.NewSpec()
	spec.Repeats = 1
	maps.Copy(spec.Base, common)
	for _, o := range options {
		maps.Copy(spec.Base, o)
	}
	p, err := experiment.Expand(spec, plugins)
	if err != nil {
		return nil, err
	}
	return &p.Cells[0], nil
}

// planner makes a plan. It keeps the first error.
type planner struct {
	Plan
	plugins experiment.Plugins
	err     error
}

// point is one cell: what is known of it, and its options.
type point struct {
	known   float64
	options values
}

func (b *planner) add(name, unit string, loaded bool, rounds int, base values, points []point) {
	e := PlannedExperiment{Name: name, Loaded: loaded, Unit: unit, Rounds: rounds}
	for _, p := range points {
		c, err := cell(b.plugins, base, p.options)
		if err != nil {
			if b.err == nil {
				b.err = fmt.Errorf("experiment %s: %w", name, err)
			}
			return
		}
		e.Known, e.Cells = append(e.Known, p.known), append(e.Cells, *c)
	}
	b.Experiments = append(b.Experiments, e)
}

func (b *planner) rounds(full, quick int) int {
	if b.Quick {
		return quick
	}
	return full
}

// delays adds delays of every call, and of half of the calls at random. The same share of
// operations is timed in all cells of the first, so that timing costs the same and does not show in
// differences.
func (b *planner) delays() {
	every := []point{{0, nil}}
	for _, d := range []time.Duration{10, 20, 50, 100, 200, 500} {
		every = append(every, point{float64(d), values{"delay": d.String()}})
	}
	b.add(calibration.ExperimentDelay, "ns", false, b.rounds(100, 10), values{"sample-every": "64"},
		every)

	var half []point
	for _, d := range []time.Duration{
		200, 500, time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
		10 * time.Microsecond,
		100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond,
	} {
		p := point{float64(d), values{"slow-delay": d.String()}}
		if d >= time.Millisecond {
			p.options["duration"] = "200ms"
		}
		half = append(half, p)
	}
	b.add(calibration.ExperimentHalf, "ns", false, b.rounds(20, 6),
		values{"sample-every": "1", "delay-distribution": "bimodal", "slow-every": "2"}, half)
}

func (b *planner) distributions() {
	rounds, short := b.rounds(10, 6), values{"sample-every": "1"}
	long := with(short, values{"duration": "200ms"})
	b.add(calibration.ExperimentExponential, "ns", false, rounds, long, []point{{0, nil},
		{float64(exponentialMean), values{"delay": exponentialMean.String(),
			"delay-distribution": "exponential"}}})
	b.add(calibration.ExperimentBimodal, "ns", false, rounds, short,
		[]point{{0, nil}, {float64(bimodalDelay), values{
			"delay": bimodalDelay.String(), "delay-distribution": "bimodal",
			"slow-delay": bimodalSlow.String(), "slow-every": strconv.Itoa(bimodalEvery),
		}}})
}

// rates adds the limits of the transport's own option rate, which is not the load's.
func (b *planner) rates() {
	var points []point
	for _, rate := range []int{10_000, 100_000, 1_000_000} {
		points = append(points, point{float64(rate),
			values{Transport + ".rate": strconv.Itoa(rate)}})
	}
	// The credit of 1 ms that the limit gives is 0.1% of a window.
	b.add(calibration.ExperimentRate, "op/s", false, b.rounds(10, 6), values{"duration": "1s"},
		points)
}

// stalls adds a closed and an open loop, and a closed loop without stalls.
func (b *planner) stalls() {
	stalled := func(more values) point {
		return point{float64(stallTime),
			with(more, values{"stall": stallTime.String(), "stall-every": stallEvery.String()})}
	}
	// Six windows are the fewest that have a 95% interval of the median.
	b.add(calibration.ExperimentStall, "ns", false, b.rounds(6, 1), values{"duration": "2s"},
		[]point{{0, nil},
			stalled(values{"sample-every": "1"}), stalled(values{"rate": strconv.Itoa(stallRate)})})
}

func (b *planner) observer() {
	points := []point{{0, values{"sample-every": strconv.Itoa(offEvery)}}}
	for _, every := range []int{1, 16, 1024} {
		points = append(points, point{float64(every), values{"sample-every": strconv.Itoa(every)}})
	}
	b.add(calibration.ExperimentObserver, "sample_every", false, b.rounds(40, 5), nil, points)
}

// power adds one of the experiments of power: an operation as users measure it, with nothing added
// but the burned time. A burn costs more than its time, so what is known of a cell is only what was
// sought: the conclusions have the share that was measured.
func (b *planner) power(name string, loaded bool, rounds int, base time.Duration, load values) {
	points := []point{{0, nil}}
	for _, share := range []float64{0.01, 0.02, 0.05, 0.1} {
		burn := max(time.Duration(share*float64(base)+0.5), 1)
		points = append(points, point{share, values{"burn": burn.String()}})
	}
	b.add(name, "share", loaded, b.rounds(rounds, 10), load, points)
}

// clients adds the experiment of the queueing model. A client's wake-ups cost up to 100 us of
// processor time for each call, so the daemon's time is long enough for two processors to serve 16
// clients.
func (b *planner) clients() {
	var points []point
	for _, n := range []int{1, 4, 16} {
		points = append(points, point{float64(n), values{"clients": strconv.Itoa(n)}})
	}
	b.add(calibration.ExperimentClients, "clients", false, b.rounds(5, 1),
		values{"daemon-time": clientsWork.String(), "delay": clientsDelay.String(),
			"idle": config.IdlePark, "duration": "500ms"}, points)
}

// launch is one launch of a cell of an experiment, by their indices.
type launch struct{ experiment, cell, round int }

// launches returns all launches in order: the cells of a round are shuffled.
func (p *Plan) launches() []launch {
	list := make([]launch, 0, p.Launches())
	for e := range p.Experiments {
		cells := len(p.Experiments[e].Cells)
		for r := range p.Experiments[e].Rounds {
			for _, c := range rand.New(rand.NewPCG(p.Seed+uint64(e), uint64(r))).Perm(cells) {
				list = append(list, launch{e, c, r})
			}
		}
	}
	return list
}

// Launches returns the number of launches.
func (p *Plan) Launches() int {
	n := 0
	for i := range p.Experiments {
		n += p.Experiments[i].Rounds * len(p.Experiments[i].Cells)
	}
	return n
}

// loadedFactor is how much longer a launch takes beside threads that spin.
const loadedFactor = 2

// Beside is what the launches of a calibration measure beside their windows.
var Beside = experiment.Beside{StateOnly: true}

// expected returns the approximate time of one launch.
func (e *PlannedExperiment) expected(cell int) time.Duration {
	d := e.Cells[cell].Expected(Beside)
	if e.Loaded {
		d *= loadedFactor
	}
	return d
}

// Expected returns the approximate time of the experiment.
func (e *PlannedExperiment) Expected() time.Duration {
	total := time.Duration(0)
	for c := range e.Cells {
		total += e.expected(c)
	}
	return total * time.Duration(e.Rounds)
}

// Expected returns the approximate time of the calibration.
func (p *Plan) Expected() time.Duration {
	total := time.Duration(0)
	for i := range p.Experiments {
		total += p.Experiments[i].Expected()
	}
	return total
}
