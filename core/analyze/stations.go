package analyze

import (
	"math"

	"transportbench/core/measure"
	"transportbench/core/rank"
	"transportbench/core/result"
)

// stations are how busy the polling threads were. Shares are of the time that
// their threads had a processor.
type stations struct {
	// daemon is the share of a daemon's time that went into turns that found
	// something, client likewise; -1 where that is not known.
	daemon, client float64
	// busyTurn and emptyTurn are a daemon's, in ns; 0 where that is not known.
	busyTurn, emptyTurn float64
	// batch is how many requests a turn that found something served.
	batch float64
	// harness is the share of a client's time that the harness itself took.
	harness float64
}

// stations computes them. Turns are timed by sampling, and those that found
// nothing are the shortest. So the time of the others is the mean of the upper
// part of the histogram, and what they leave of the window is the time of the
// empty ones. What an empty turn takes a daemon, an empty poll takes a client.
func (e *evidence) stations() stations {
	s := stations{daemon: -1, client: -1}
	s.harness = e.overhead.PerOpNS * e.ops / e.clientTime
	busy := e.loops - e.emptyLoops
	if e.loops == 0 || busy == 0 {
		return s
	}
	s.batch = e.requests / busy
	loops := e.histogram(rank.PhaseLoop)
	if loops.Count() == 0 {
		return s
	}
	available := e.daemonTime
	if e.daemonCPU > 0 {
		available = min(e.daemonCPU, e.daemonTime)
	}
	s.busyTurn = upperMean(loops, e.emptyLoops/e.loops)
	s.daemon = min(1, busy*s.busyTurn/available)
	s.emptyTurn = lowerMean(loops, e.emptyLoops/e.loops)
	if e.emptyLoops > 0 && s.daemon < 1 {
		s.emptyTurn = min(s.emptyTurn, (1-s.daemon)*available/e.emptyLoops)
	}
	if own := min(e.clientCPU, e.clientTime); own > 0 && s.emptyTurn > 0 {
		s.client = max(0, 1-e.emptyPolls*s.emptyTurn/own)
	}
	return s
}

// histogram merges the daemons' sampled times of one phase.
func (e *evidence) histogram(phase string) *measure.Histogram {
	var encoded []string
	for i := range e.repeats {
		for _, d := range e.repeats[i].Daemons() {
			encoded = append(encoded, d.Phases[phase].Histogram)
		}
	}
	merged, err := result.Histograms(encoded...)
	if err != nil { // which the phases would have had before
		return measure.NewHistogram()
	}
	return merged
}

// steps is how finely a histogram's quantiles are added up. The last step's
// middle is the quantile 0.9995, so that a turn in which the thread lost its
// processor does not count as work.
const steps = 1000

// upperMean is the mean of what lies above a quantile, lowerMean of what lies
// below it.
func upperMean(h *measure.Histogram, from float64) float64 { return quantileMean(h, from, 1) }
func lowerMean(h *measure.Histogram, to float64) float64   { return quantileMean(h, 0, to) }

func quantileMean(h *measure.Histogram, from, to float64) float64 {
	if to <= from {
		return 0
	}
	sum := 0.0
	for i := range steps {
		at := from + (to-from)*(float64(i)+0.5)/steps
		sum += h.Quantile(min(at, 1-0.5/steps))
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
