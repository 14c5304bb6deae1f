package analyze

import (
	"math"
	"slices"

	"transportbench/core/base/record"
	"transportbench/core/lab/result"
)

// utilization are how busy the polling threads were. Shares are of the time that
// their threads had a processor.
type utilization struct {
	// daemon is the share of a daemon's time that went into turns that found
	// something, client likewise; unknown where the results do not tell.
	daemon, client float64
	// busyTurn and emptyTurn are a daemon's, in ns; 0 where that is not known.
	busyTurn, emptyTurn float64
	// batch is how many requests a turn that found something served.
	batch float64
	// perOp is what an operation keeps daemons busy for, in ns; 0 likewise.
	perOp float64
	// harness is the share of a client's time that the harness itself took.
	harness float64
	// running is the share of the windows in which polling threads had a
	// processor; 1 where the kernel does not say.
	running float64
}

// utilization computes them. Some turns are timed, and those that found nothing are
// the shortest, so that the upper part of the histogram are the others. Being
// timed makes every turn longer by as much as the mean of the timed ones is
// longer than that of all, which is known from their number. What an empty turn
// takes a daemon, an empty poll takes a client.
//
// Each is the median over the repeats: in one of them something else may have
// had the processor.
func (e *evidence) utilization() utilization {
	var list []utilization
	for i := range e.repeats {
		list = append(list, utilizationOf(sum(e.repeats[i:i+1]), timedTurns(&e.repeats[i])))
	}
	over := func(of func(*utilization) float64) float64 {
		values := make([]float64, len(list))
		for i := range list {
			values[i] = of(&list[i])
		}
		return median(values)
	}
	return utilization{
		daemon:    over(func(s *utilization) float64 { return s.daemon }),
		client:    over(func(s *utilization) float64 { return s.client }),
		busyTurn:  over(func(s *utilization) float64 { return s.busyTurn }),
		emptyTurn: over(func(s *utilization) float64 { return s.emptyTurn }),
		batch:     over(func(s *utilization) float64 { return s.batch }),
		perOp:     over(func(s *utilization) float64 { return s.perOp }),
		running:   over(func(s *utilization) float64 { return s.running }),
		harness:   e.harness.PerOpNS * e.throughput / float64(max(e.clients(), 1)) / 1e9,
	}
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func utilizationOf(t totals, timed *record.Histogram) utilization {
	s := utilization{daemon: unknown, client: unknown, running: 1}
	if t.clientCPU > 0 && t.daemonCPU > 0 {
		s.running = (t.clientCPU + t.daemonCPU) / (t.clientTime + t.daemonTime)
	}
	busy := t.loops - t.emptyLoops
	if busy == 0 {
		return s
	}
	s.batch = t.requests / busy
	if timed.Count() == 0 {
		return s
	}
	available := t.daemonTime
	if t.daemonCPU > 0 {
		available = min(t.daemonCPU, t.daemonTime)
	}
	empty := t.emptyLoops / t.loops
	turn := available / t.loops
	s.emptyTurn, s.busyTurn = quantileMean(timed, 0, empty), quantileMean(timed, empty, 1)
	longer := max(0, empty*s.emptyTurn+(1-empty)*s.busyTurn-turn)
	if empty > 0 { // what is left is a turn all the same
		longer = min(longer, 0.9*s.emptyTurn)
		s.emptyTurn -= longer
	}
	s.busyTurn = min(max(s.busyTurn-longer, 0), turn/(1-empty))
	s.daemon = (1 - empty) * s.busyTurn / turn
	s.perOp = s.daemon * available / t.ops
	if own := min(t.clientCPU, t.clientTime); own > 0 && s.emptyTurn > 0 {
		s.client = max(0, 1-t.emptyPolls*s.emptyTurn/own)
	}
	return s
}

// unknown is the share of a station of which the results do not tell.
const unknown = -1

// timedTurns merges the turns of the daemons that were timed.
func timedTurns(r *result.Repeat) *record.Histogram {
	var encoded []string
	for _, d := range r.Daemons() {
		encoded = append(encoded, d.Phases[record.PhaseLoop].Histogram)
	}
	merged, err := result.Histograms(encoded...)
	if err != nil { // which the phases would have had before
		return record.NewHistogram()
	}
	return merged
}

// quantileMean is the mean of what lies between two quantiles. The uppermost
// hundredth is left out, as are those in which the thread lost its processor.
func quantileMean(h *record.Histogram, from, to float64) float64 {
	const steps = 1000
	if to <= from {
		return 0
	}
	sum := 0.0
	for i := range steps {
		sum += h.Quantile(from + 0.99*(to-from)*(float64(i)+0.5)/steps)
	}
	return sum / steps
}

// geometric is the geometric mean; 0 of nothing.
func geometric(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}
