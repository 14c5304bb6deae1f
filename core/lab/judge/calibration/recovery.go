package calibration

import (
	"math"
	"time"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The promises: the error of a delay of minPromised ns or more is within delayTolerance of it or
// minTolerance ns, whichever is larger, and that of a rate within rateTolerance.
const (
	minPromised    = 200
	delayTolerance = 0.03
	minTolerance   = 10
	rateTolerance  = 0.01
)

// The quantities of fixed delays.
const (
	quantityDelay   = "delay of half of the calls"
	quantityDelayed = "delay of every call"
)

// tolerance returns the promised error of a delay in ns; 0 if none is promised.
func tolerance(delay float64) float64 {
	if delay < minPromised {
		return 0
	}
	return max(delayTolerance*delay, minTolerance)
}

var recovered = map[string]func(*Experiment) []Recovery{
	ExperimentDelay: (*Experiment).delays, ExperimentHalf: (*Experiment).halves,
	ExperimentExponential: (*Experiment).exponential, ExperimentBimodal: (*Experiment).bimodal,
	ExperimentRate: (*Experiment).rates, ExperimentStall: (*Experiment).stalls,
	ExperimentClients: (*Experiment).clients, ExperimentMemory: (*Experiment).burns,
	ExperimentSockets: (*Experiment).burns, ExperimentMemoryLoaded: (*Experiment).burns,
}

func (d *Document) recovery() []Recovery {
	rows := []Recovery{}
	for i := range d.Experiments {
		if of := recovered[d.Experiments[i].Name]; of != nil {
			rows = append(rows, of(&d.Experiments[i])...)
		}
	}
	return rows
}

// judged returns the row with Within set.
func (r Recovery) judged() Recovery {
	m := r.Measured
	r.Within = r.Tolerance > 0 && !r.Beyond() && m.Low != nil &&
		max(m.Value-*m.Low, *m.High-m.Value) <= r.Tolerance
	return r
}

// added returns a row for each cell in which something is injected: by how much its metric exceeds
// a metric of the reference, in ns. known returns the theory for a cell and what was injected into
// it; a cell of which it returns 0 has no row. Nothing is promised: a call after a pause takes
// longer, whatever causes the pause, because the medium and the processors have settled on the
// rhythm of calls without one.
func (e *Experiment) added(quantity, metric, base string,
	known func(c *set.Cell, injected float64) float64) []Recovery {
	reference, states := e.reference(), state.NewClassifier(e.Set)
	if reference == nil {
		return nil
	}
	var rows []Recovery
	for i, injected := range e.Known {
		c := &e.Set.Cells[i]
		expected := known(c, injected)
		if injected == 0 || expected == 0 {
			continue
		}
		shift, ok := compare.NewShift(compare.Values{Cell: reference, Metric: base},
			compare.Values{Cell: c, Metric: metric},
			ranktest.Subtract, states, intervalAlpha)
		if !ok {
			continue
		}
		rows = append(rows, Recovery{
			Quantity: quantity, Unit: "ns", Known: expected, Measured: newEstimate(shift),
			Windows: shift.B,
		})
	}
	return rows
}

// delays compares medians, which interruptions of the machine do not move.
func (e *Experiment) delays() []Recovery {
	return e.added(quantityDelayed, result.LatencyP50, result.LatencyP50,
		func(_ *set.Cell, delay float64) float64 { return delay })
}

// halves compares the delayed half of the calls of a window with the other half: the lower quartile
// of all calls is the median of those without a delay, and the upper one that of those with one, if
// the delay is longer than the calls differ. Both halves have calls after a pause alike, and the
// luck of a launch is that of both.
func (e *Experiment) halves() []Recovery {
	var rows []Recovery
	for i, delay := range e.Known {
		c := &e.Set.Cells[i]
		lower, upper := c.Samples[LowerQuartile], c.Samples[UpperQuartile]
		if delay == 0 || len(lower) == 0 || len(lower) != len(upper) {
			continue
		}
		between := make([]float64, len(lower))
		for w := range lower {
			between[w] = upper[w] - lower[w]
		}
		m := result.Summarize(UpperQuartile, between)
		rows = append(rows, Recovery{
			Quantity: quantityDelay, Unit: "ns", Known: delay,
			Measured: Estimate{m.Median, m.Low, m.High},
			Windows:  len(between), Tolerance: tolerance(delay),
		}.judged())
	}
	return rows
}

// exponential compares the mean and two percentiles with theory: an exponential delay of the mean D
// is below D ln 2 half of the time, and below D ln 100 in 99 of 100 calls. An operation without a
// delay varies little in comparison, so its median is added to both.
func (e *Experiment) exponential() []Recovery {
	times := func(factor float64) func(*set.Cell, float64) float64 {
		return func(_ *set.Cell, mean float64) float64 { return factor * mean }
	}
	rows := e.added("exponential delay: mean", result.LatencyMean, result.LatencyMean, times(1))
	rows = append(rows, e.added("exponential delay: p50", result.LatencyP50, result.LatencyP50,
		times(math.Ln2))...)
	return append(rows, e.added("exponential delay: p99", result.LatencyP99, result.LatencyP50,
		times(math.Log(100)))...)
}

// bimodal compares the fast mode, in which the median lies, and the slow one, in which p99 does if
// more than one call in 100 is slow.
func (e *Experiment) bimodal() []Recovery {
	rows := e.added("bimodal delay: p50", result.LatencyP50, result.LatencyP50,
		func(_ *set.Cell, fast float64) float64 { return fast })
	return append(rows, e.added("bimodal delay: p99", result.LatencyP99, result.LatencyP50,
		func(c *set.Cell, _ float64) float64 {
			return durationOf(c, "slow-delay")
		})...)
}

// durationOf returns an option of the transport in ns; 0 if it has none.
func durationOf(c *set.Cell, option string) float64 {
	duration, err := time.ParseDuration(c.Config["options."+option])
	if err != nil {
		return 0
	}
	return float64(duration)
}

// level returns the median of a metric over all windows.
func level(c *set.Cell, metric string) (e Estimate, ok bool) {
	if len(c.Samples[metric]) == 0 {
		return Estimate{}, false
	}
	m := result.Summarize(metric, c.Samples[metric])
	return Estimate{m.Median, m.Low, m.High}, true
}

func (e *Experiment) rates() []Recovery {
	var rows []Recovery
	for i, rate := range e.Known {
		c := &e.Set.Cells[i]
		if measured, ok := level(c, result.Throughput); ok && rate > 0 {
			rows = append(rows, Recovery{
				Quantity: "rate", Unit: "op/s", Known: rate, Measured: measured,
				Windows: len(c.Windows), Tolerance: rateTolerance * rate,
			}.judged())
		}
	}
	return rows
}

// stalls compares a closed loop and an open loop with theory.
//
// In a closed loop one call of each client waits for the whole stall, and too few do to move p99:
// it is that of a closed loop without stalls, if the experiment has one. In an open loop the share
// s = stall / every of the calls is due during a stall and waits for its end; they are due at any
// moment of it, so the response times of these are uniform from 0 to the stall. A response time
// above x then has the probability s (1 - x / stall), which is 1% at x = stall (1 - 0.01 / s). The
// calls that waited are served at once after the stall: at a hundredth of the transport's capacity,
// which the load is below, the time that this takes makes p99 larger by less than 0.2%.
func (e *Experiment) stalls() []Recovery {
	var rows []Recovery
	for i, stall := range e.Known {
		c := &e.Set.Cells[i]
		every := durationOf(c, "stall-every")
		if stall == 0 || every == 0 {
			continue
		}
		add := func(quantity, metric string, known, tolerance float64) {
			if measured, ok := level(c, metric); ok {
				rows = append(rows, Recovery{
					Quantity: quantity, Unit: "ns", Known: known, Measured: measured,
					Windows: len(c.Windows), Tolerance: tolerance,
				}.judged())
			}
		}
		if !c.OpenLoop() {
			add("stall: max, closed loop", result.LatencyMax, stall, tolerance(stall))
			if unstalled := e.reference(); unstalled != nil && !unstalled.OpenLoop() {
				if p99, ok := level(unstalled, result.LatencyP99); ok {
					// A transport with stalls reads the clock to tell them, so nothing is promised.
					add("stall: p99, closed loop", result.LatencyP99, p99.Value, 0)
				}
			}
			continue
		}
		add("stall: max, open loop", result.ResponseMax, stall, tolerance(stall))
		if p99 := stall * (1 - 0.01*every/stall); p99 > 0 {
			add("stall: p99, open loop", result.ResponseP99, p99, tolerance(p99))
		}
	}
	return rows
}

// burns compares the added share of an operation's time, which is the throughput without it over
// that with it.
func (e *Experiment) burns() []Recovery {
	reference, states := e.reference(), state.NewClassifier(e.Set)
	if reference == nil {
		return nil
	}
	quantity := "added time, " + classes[e.Name]
	if e.Loaded {
		quantity += ", loaded"
	}
	var rows []Recovery
	for i, share := range e.Known {
		if share == 0 {
			continue
		}
		if ratio, windows, ok := throughputRatio(&e.Set.Cells[i], reference, states); ok {
			rows = append(rows, Recovery{
				Quantity: quantity, Unit: "share", Known: share,
				Measured: ratio.transform(func(ratio float64) float64 { return ratio - 1 }),
				Windows:  windows,
			})
		}
	}
	return rows
}

// throughputRatio returns the throughput of b over that of a within the states of the machine, and
// the windows of a that it is of.
func throughputRatio(a, b *set.Cell, states state.Classifier) (ratio Estimate,
	windows int, ok bool) {
	values := func(c *set.Cell) compare.Values {
		return compare.Values{Cell: c, Metric: result.Throughput}
	}
	shift, ok := compare.NewShift(values(a), values(b), ranktest.Ratio, states, intervalAlpha)
	return newEstimate(shift), shift.A, ok
}
