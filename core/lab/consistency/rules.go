package consistency

import (
	"fmt"
	"math"
	"slices"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
)

// Figures are what one measurement comes to: a repeat, a cell's repeat, or one
// row of a document.
type Figures struct {
	Load Load
	// Values are by the names of the metrics, in their units. A document's
	// latency_mean is known too.
	Values map[string]float64
	// Printed says that somebody printed them: rounded, and with whatever
	// mistakes people make. Those that this project recorded are exact but for
	// what a histogram rounds, and some may be off by chance.
	Printed bool
}

// The share by which figures may be off: "3.9 ms" is within 1.3%, and a bin of
// a histogram within 0.1%.
const (
	printed  = 0.05
	recorded = 0.005
)

func (f Figures) tolerance() float64 {
	if f.Printed {
		return printed
	}
	return recorded
}

// LatencyMean is the mean service time, which documents have in the place of
// percentiles.
const LatencyMean = "latency_mean"

// What is checked, in this order. exact rules hold to the last digit, and those
// for printed figures take them at their word. For recorded ones, whose own
// checks knew more than the metrics say, there are bounds instead.
var (
	exact   = []func(Figures) []result.Check{ranges, order, responses, goodput, floors}
	claimed = []func(Figures) []result.Check{littlesLaw, mix, iteration, tokens}
	bounded = []func(Figures) []result.Check{littlesBounds, processors, offered}
)

// Check returns what does not fit together, as failed checks: errors exclude
// each other, warnings leave something unexplained or may be chance.
func Check(f Figures) []result.Check {
	rules := slices.Concat(exact, bounded)
	if f.Printed {
		rules = slices.Concat(exact, claimed, bounded)
	}
	var list []result.Check
	for _, rule := range rules {
		list = append(list, rule(f)...)
	}
	return bySeverity(list)
}

func bySeverity(list []result.Check) []result.Check {
	var sorted []result.Check
	for _, severity := range []result.Severity{result.Error, result.Warning, result.Info} {
		for _, c := range list {
			if c.Severity == severity {
				sorted = append(sorted, c)
			}
		}
	}
	return sorted
}

// failed is a check that is not OK.
func failed(name string, severity result.Severity, value, limit float64, message string, args ...any) []result.Check {
	return []result.Check{{Name: name, Severity: severity, Value: value, Limit: limit, Message: fmt.Sprintf(message, args...)}}
}

// all returns the values of several metrics; ok is false where one is missing.
func (f Figures) all(names ...string) (values []float64, ok bool) {
	for _, name := range names {
		v, has := f.Values[name]
		if !has {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}

// apart is the share by which two numbers differ, of the second.
func apart(a, b float64) float64 {
	if b == 0 {
		return math.Abs(a)
	}
	return math.Abs(a/b - 1)
}

// ranges are those in which metrics must lie whatever was measured.
func ranges(f Figures) (list []result.Check) {
	for _, d := range result.Definitions {
		v, has := f.Values[d.Name]
		share := d.Name == result.EmptyLoops
		switch {
		case !has:
		case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
			list = append(list, failed("range", result.Error, v, 0, "%s is %g %s, which no measurement gives", d.Name, v, d.Unit)...)
		case share && v > 1:
			list = append(list, failed("range", result.Error, v, 1, "%s is %g, and a share is 1 at most", d.Name, v)...)
		}
	}
	return list
}

// order is that of percentiles: a higher one is not below a lower one.
func order(f Figures) (list []result.Check) {
	for _, family := range families() {
		previous, was := -1.0, ""
		for _, q := range quantiles {
			name := family + "_" + q.name
			v, has := f.Values[name]
			if !has {
				continue
			}
			if v < previous {
				list = append(list, failed("percentiles", result.Error, v, previous,
					"%s is %s and %s is %s: a higher percentile cannot be below a lower one",
					name, format.Time(v), was, format.Time(previous))...)
			}
			previous, was = v, name
		}
	}
	return list
}

// responses of an open loop count from when an operation was due, service times
// from when it was issued, which is never before.
func responses(f Figures) (list []result.Check) {
	for _, q := range quantiles {
		pair, ok := f.all("response_"+q.name, "latency_"+q.name)
		if ok && pair[0] < pair[1]*(1-f.tolerance()) {
			list = append(list, failed("response", result.Error, pair[0], pair[1],
				"response_%s is %s and latency_%s is %s: a response time, which begins earlier, is never below the service time",
				q.name, format.Time(pair[0]), q.name, format.Time(pair[1]))...)
		}
	}
	return list
}

// littlesLaw compares the calls in flight with throughput times mean latency.
func littlesLaw(f Figures) []result.Check {
	v, ok := f.all(result.Throughput, LatencyMean)
	if !ok || f.Load.InFlight == 0 {
		return nil
	}
	rate, mean, configured := v[0], v[1], float64(f.Load.InFlight)
	found := InFlight(rate, mean)
	if apart(found, configured) <= printed {
		return nil
	}
	return failed("littles_law", result.Error, found, configured,
		"%s at a mean of %s each are %s calls in flight, and %s were said to be: by Little's law the mean is %s, or the rate %s",
		format.Rate(rate), format.Time(mean), format.Digits(found), format.Digits(configured),
		format.Time(configured/rate*1e9), format.Rate(configured/mean*1e9))
}

// littlesBounds is Little's law where only percentiles are known: the mean lies
// between two bounds, and the law is broken where both are on one side.
func littlesBounds(f Figures) []result.Check {
	rate, configured := f.Values[result.Throughput], float64(f.Load.InFlight)
	if !(rate > 0) || configured == 0 {
		return nil
	}
	low, high := meanBounds(f)
	switch {
	case InFlight(rate, low) > configured*(1+printed):
		return failed("littles_law", result.Warning, InFlight(rate, low), configured,
			"the percentiles allow no mean latency below %s, which at %s are %s calls in flight; only %g can be",
			format.Time(low), format.Rate(rate), format.Digits(InFlight(rate, low)), configured)
	case high > 0 && InFlight(rate, high) < configured*(1-printed):
		return failed("littles_law", result.Warning, InFlight(rate, high), configured,
			"the percentiles allow no mean latency above %s, which at %s are %s calls in flight; %g were to be kept, so that time passed with fewer, or the percentiles are not those of all calls",
			format.Time(high), format.Rate(rate), format.Digits(InFlight(rate, high)), configured)
	}
	return nil
}

// unclear is the share of a time that a model may leave unexplained.
const unclear = 0.1

// InFlight is Little's law: the calls that are in flight at a rate in op/s and
// a mean latency in ns.
func InFlight(rate, mean float64) float64 { return rate * mean / 1e9 }

// InFlightOf is [InFlight] summed over clients, each of which has a mean of its
// own.
func InFlightOf(clients []record.ClientReport) float64 {
	found := 0.0
	for i := range clients {
		found += InFlight(result.PerSecond(clients[i].Ops(), clients[i].ElapsedNS), clients[i].MeanNS)
	}
	return found
}

// mix compares the rate of a closed loop with what the mean times of local and
// remote requests allow.
func mix(f Figures) []result.Check {
	v, ok := f.all(result.Throughput, result.LocalMean, result.RemoteMean)
	if !ok || f.Load.InFlight == 0 || f.Load.RemoteShare < 0 {
		return nil
	}
	share := f.Load.RemoteShare
	mean := MixedMean(v[1], v[2], share)
	expected := float64(f.Load.InFlight) / mean * 1e9
	if apart(v[0], expected) <= unclear {
		return nil
	}
	clients := float64(max(f.Load.Clients, 1))
	own := float64(f.Load.InFlight) / v[0] * 1e9
	return failed("queueing_model", result.Error, v[0], expected,
		"a client whose local requests take %s and whose remote ones (%.0f%%) take %s would complete %s; it completed %s, %s of it. "+
			"%s of the %s that a request took in the mean are in neither",
		format.Time(v[1]), 100*share, format.Time(v[2]), format.Rate(expected/clients), format.Rate(v[0]/clients),
		format.Digits(v[0]/expected), format.Time(own-mean), format.Time(own))
}

// MixedMean is the mean time of a request of which a share is remote.
func MixedMean(local, remote, share float64) float64 { return (1-share)*local + share*remote }

// iteration compares the time of an iteration of a pattern with that of the
// operations in it, one after the other.
func iteration(f Figures) []result.Check {
	rate, has := f.Values[result.IterationRate]
	if !has || f.Load.InFlight == 0 || len(f.Load.Pattern) == 0 {
		return nil
	}
	whole := float64(f.Load.InFlight) / rate * 1e9
	s := Sum{What: fmt.Sprintf("an iteration, %d at a time and %s a second,", f.Load.InFlight, format.Digits(rate)),
		Whole: whole, Unit: "ns"}
	for _, part := range f.Load.Pattern {
		each, known := f.Values[part.Op+"_p50"]
		p := SumPart{Name: part.Op + "s", Count: float64(part.Count)}
		if known {
			p.Name += " at the median"
			p.Each = each
		}
		s.Parts = append(s.Parts, p)
	}
	return s.Check()
}

// goodput is at most every value of every operation.
func goodput(f Figures) []result.Check {
	v, ok := f.all(result.Throughput, result.Goodput)
	if !ok || f.Load.MaxValue < 0 {
		return nil
	}
	const most = 2 // a read-modify-write has two values
	limit := most * v[0] * float64(f.Load.MaxValue)
	if v[1] <= limit*(1+f.tolerance()) {
		return nil
	}
	return failed("goodput", result.Error, v[1], limit, "%s are more than %s of values of %d bytes can be",
		format.Number(v[1], "B/s"), format.Rate(v[0]), f.Load.MaxValue)
}

// tokens are those of the blocks that an iteration reads and writes.
func tokens(f Figures) []result.Check {
	v, ok := f.all(result.IterationRate, result.TokenRate)
	if !ok || f.Load.TokensPerBlock == 0 {
		return nil
	}
	blocks := 0
	for _, part := range f.Load.Pattern {
		if part.Op != config.OpLookup {
			blocks += part.Count
		}
	}
	// Whole iterations are counted, and the tokens of those that were cut off.
	expected := v[0] * float64(blocks*f.Load.TokensPerBlock)
	if blocks == 0 || apart(v[1], expected) <= printed {
		return nil
	}
	return failed("tokens", result.Error, v[1], expected, "%s iterations a second of %d blocks of %d tokens are %s tokens a second and not %s",
		format.Digits(v[0]), blocks, f.Load.TokensPerBlock, format.Digits(expected), format.Digits(v[1]))
}

// floors are the ratios to the floor, each within its own repeat.
func floors(f Figures) (list []result.Check) {
	floor, has := f.Values[result.Floor]
	if !has || !(floor > 0) {
		return nil
	}
	if v, ok := f.all(result.FloorRatio, result.LatencyP50); ok && apart(v[0], v[1]/floor) > f.tolerance() {
		list = append(list, failed("floor_ratio", result.Error, v[0], v[1]/floor, "latency_p50 over floor is %s over %s, %s, and not %s",
			format.Time(v[1]), format.Time(floor), format.Digits(v[1]/floor), format.Digits(v[0]))...)
	}
	if v, ok := f.all(result.OpTimeRatio, result.Throughput); ok && v[1] > 0 && apart(v[0], 1e9/v[1]/floor) > f.tolerance() {
		list = append(list, failed("op_time_ratio", result.Error, v[0], 1e9/v[1]/floor, "an operation each %s over a floor of %s is %s, and not %s",
			format.Time(1e9/v[1]), format.Time(floor), format.Digits(1e9/v[1]/floor), format.Digits(v[0]))...)
	}
	return list
}

// processors: a thread has one second of a processor in a second.
func processors(f Figures) []result.Check {
	v, ok := f.all(result.CPUPerOp, result.Throughput)
	if !ok || f.Load.Threads == 0 {
		return nil
	}
	busy := v[0] * v[1] / 1e9
	if limit := float64(f.Load.Threads); busy > limit*(1+printed) {
		return failed("cpu_per_op", result.Warning, busy, limit, "%s of processor time each at %s are %s processors, and there were %d polling threads",
			format.Time(v[0]), format.Rate(v[1]), format.Digits(busy), f.Load.Threads)
	}
	return nil
}

// offered: of an open loop no more can be completed than was due.
func offered(f Figures) []result.Check {
	v, ok := f.all(result.Throughput, result.OfferedLoad)
	if !ok || v[0] <= v[1]*(1+printed) {
		return nil
	}
	return failed("offered_load", result.Warning, v[0], v[1], "%s were completed, and only %s were due", format.Rate(v[0]), format.Rate(v[1]))
}
