package analyze

import (
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// utilization has how busy the polling threads were. Shares are of the time in which their threads
// had a processor.
type utilization struct {
	// daemon and client are the shares of time in loop iterations that found something, or unknown.
	daemon, client float64
	// busyIteration and emptyIteration are mean times of a daemon's loop in ns; 0 if unknown.
	busyIteration, emptyIteration float64
	// batch is the number of requests that an iteration served if it found something.
	batch float64
	// perOp and clientPerOp are the times in ns that an operation keeps the daemons and its client
	// busy; 0 if unknown.
	perOp, clientPerOp float64
	// harness is the share of a client's time that the harness takes.
	harness float64
	// running is the share of the windows in which polling threads had a processor; 1 if the kernel
	// does not report it.
	running float64
}

// utilization computes the utilization as the median over repeats, because in some repeats other
// programs may have had the processor.
//
// Processor time does not tell how busy a polling thread is, because it spins. The times of a
// sample of loop iterations do: those that found nothing are the shortest, so the upper part of the
// histogram has the others. Timing makes each sampled iteration longer, by the difference between
// the mean of the sample and that of all iterations, which follows from their number. An empty poll
// of a client is taken to last as long as an empty iteration of a daemon, except if a schedule says
// when the next operation is due: the client's wait for that is no poll, so its share is that of
// the timed iterations that found responses.
func (e *measurements) utilization() utilization {
	var list []utilization
	for _, w := range e.windows {
		one := utilizationOf(w.totals, timedIterations(&w.repeats[0]), e.cfg.Scheduled())
		one.harness = w.clientHarness() * w.throughput / float64(max(e.clients(), 1)) / 1e9
		list = append(list, one)
	}
	return medians(list, func(s *utilization) []*float64 {
		return []*float64{&s.daemon, &s.client, &s.busyIteration, &s.emptyIteration, &s.batch,
			&s.perOp, &s.clientPerOp, &s.harness, &s.running}
	})
}

func utilizationOf(t totals, timed *record.Histogram, scheduled bool) utilization {
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
	iteration := available / t.loops
	s.emptyIteration, s.busyIteration = quantileMean(timed, 0, empty), quantileMean(timed, empty, 1)
	longer := max(0, empty*s.emptyIteration+(1-empty)*s.busyIteration-iteration)
	if empty > 0 { // an iteration takes some time
		longer = min(longer, 0.9*s.emptyIteration)
		s.emptyIteration -= longer
	}
	s.busyIteration = min(max(s.busyIteration-longer, 0), iteration/(1-empty))
	s.daemon = (1 - empty) * s.busyIteration / iteration
	s.perOp = s.daemon * available / t.ops
	own := min(t.clientCPU, t.clientTime)
	switch {
	case own == 0:
		return s
	case scheduled && t.clientBusy > 0:
		s.client = min(1, t.clientBusy/own)
	case !scheduled && s.emptyIteration > 0:
		s.client = max(0, 1-t.emptyPolls*s.emptyIteration/own)
	default:
		return s
	}
	s.clientPerOp = s.client * own / t.ops
	return s
}

// unknown is a share that does not follow from the results.
const unknown = -1

// timedIterations merges the sampled times of the daemons' loops.
func timedIterations(r *result.Repeat) *record.Histogram {
	var encoded []string
	for _, d := range r.Daemons() {
		encoded = append(encoded, d.Phases[record.PhaseLoop].Histogram)
	}
	merged, err := result.Histograms(encoded...)
	if err != nil { // not reached: PhasesOf has decoded the histograms
		return record.NewHistogram()
	}
	return merged
}

// quantileMean returns the mean between two quantiles without the uppermost hundredth, in which
// threads lost their processors.
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
