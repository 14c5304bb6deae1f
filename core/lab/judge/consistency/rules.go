package consistency

import (
	"fmt"
	"math"
	"sync"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
)

// figures are the metrics of a row of a document. They are rounded and may have mistakes.
type figures struct {
	load load
	// values are by metric, in the metric's unit. Documents may have [result.LatencyMean] instead
	// of percentiles.
	values map[string]float64
}

// printed is the tolerance as a fraction: "3.9 ms" is within 1.3%.
const printed = 0.05

// rules are applied in this order.
var rules = []func(figures) []result.Finding{ranges, order, responses, goodput, floors,
	littlesLaw, mix, iteration, tokens, littlesBounds, processors, offered}

// check returns the rules that f violates, as failed checks. An error is a contradiction; a warning
// leaves something unexplained or may be chance.
func (f figures) check() (list []result.Finding) {
	for _, rule := range rules {
		list = append(list, rule(f)...)
	}
	return result.Failed(list)
}

// failed returns one failed check.
func failed(name string, severity result.Severity, value, limit float64, message string,
	args ...any) []result.Finding {
	return []result.Finding{{Name: name, Severity: severity, Value: value, Limit: limit,
		Message: fmt.Sprintf(message, args...)}}
}

// all returns the values of several metrics; ok is false if one is missing.
func (f figures) all(names ...string) (values []float64, ok bool) {
	for _, name := range names {
		v, has := f.values[name]
		if !has {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}

// apart returns the difference of two numbers as a fraction of the second.
func apart(a, b float64) float64 {
	if b == 0 {
		return math.Abs(a)
	}
	return math.Abs(a/b - 1)
}

// ranges checks the ranges of metrics.
func ranges(f figures) (list []result.Finding) {
	for _, d := range result.Definitions {
		v, has := f.values[d.Name]
		share := d.Name == result.EmptyLoops
		switch {
		case !has:
		case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
			list = append(list, failed("range", result.Error, v, 0,
				"%s is %g %s, which is impossible", d.Name, v, d.Unit)...)
		case share && v > 1:
			list = append(list, failed("range", result.Error, v, 1,
				"%s is %g, but a share is at most 1", d.Name, v)...)
		}
	}
	return list
}

// order checks that no percentile is below a lower one.
func order(f figures) (list []result.Finding) {
	for _, family := range percentiles() {
		previous, was := -1.0, ""
		for _, name := range family {
			v, has := f.values[name]
			if !has {
				continue
			}
			if v < previous {
				list = append(list, failed("percentiles", result.Error, v, previous,
					"%s is %s but %s is %s: a higher percentile cannot be below a lower one",
					name, format.Time(v), was, format.Time(previous))...)
			}
			previous, was = v, name
		}
	}
	return list
}

// responses checks that response times, which begin when an operation is due, are not below service
// times, which begin when it is issued.
func responses(f figures) (list []result.Finding) {
	for _, q := range quantiles {
		pair, ok := f.all("response_"+q.name, "latency_"+q.name)
		if ok && pair[0] < pair[1]*(1-printed) {
			list = append(list, failed("response", result.Error, pair[0], pair[1],
				"response_%s is %s but latency_%s is %s: a response time begins earlier and is "+
					"never below the service time",
				q.name, format.Time(pair[0]), q.name, format.Time(pair[1]))...)
		}
	}
	return list
}

// littlesLaw compares the calls in flight with throughput times mean latency.
func littlesLaw(f figures) []result.Finding {
	v, ok := f.all(result.Throughput, result.LatencyMean)
	if !ok || f.load.InFlight == 0 {
		return nil
	}
	rate, mean, configured := v[0], v[1], float64(f.load.InFlight)
	found := InFlight(rate, mean)
	if apart(found, configured) <= printed {
		return nil
	}
	return failed("littles_law", result.Error, found, configured,
		"%s at a mean of %s are %s calls in flight, but %s are claimed: by Little's law the mean "+
			"is %s, or the rate %s",
		format.Rate(rate), format.Time(mean), format.Digits(found), format.Digits(configured),
		format.Time(configured/rate*1e9), format.Rate(configured/mean*1e9))
}

// littlesBounds is Little's law for percentiles, which bound the mean from both sides.
func littlesBounds(f figures) []result.Finding {
	rate, configured := f.values[result.Throughput], float64(f.load.InFlight)
	if !(rate > 0) || configured == 0 {
		return nil
	}
	low, high := meanBounds(f)
	switch {
	case InFlight(rate, low) > configured*(1+printed):
		return failed("littles_law", result.Warning, InFlight(rate, low), configured,
			"the percentiles allow no mean latency below %s, which at %s is %s calls in flight; "+
				"at most %g are possible",
			format.Time(low), format.Rate(rate), format.Digits(InFlight(rate, low)), configured)
	case high > 0 && InFlight(rate, high) < configured*(1-printed):
		return failed("littles_law", result.Warning, InFlight(rate, high), configured,
			"the percentiles allow no mean latency above %s, which at %s is %s calls in flight "+
				"instead of %g: for some time fewer were in flight, or the percentiles do not "+
				"cover all calls",
			format.Time(high), format.Rate(rate), format.Digits(InFlight(rate, high)), configured)
	}
	return nil
}

// unexplained is the share of a time that a model may leave unexplained.
const unexplained = 0.1

// InFlight returns the calls in flight at a rate in op/s and a mean latency in ns, by Little's law.
func InFlight(rate, mean float64) float64 { return rate * mean / 1e9 }

// mix compares the rate of a closed loop with the mean times of local and remote requests.
func mix(f figures) []result.Finding {
	v, ok := f.all(result.Throughput, result.LocalMean, result.RemoteMean)
	if !ok || f.load.InFlight == 0 || f.load.RemoteShare < 0 {
		return nil
	}
	share := f.load.RemoteShare
	mean := MixedMean(v[1], v[2], share)
	expected := float64(f.load.InFlight) / mean * 1e9
	if apart(v[0], expected) <= unexplained {
		return nil
	}
	clients := float64(max(f.load.Clients, 1))
	own := float64(f.load.InFlight) / v[0] * 1e9
	return failed("queueing_model", result.Error, v[0], expected,
		"a client with local requests of %s and remote ones (%.0f%%) of %s would complete %s; it "+
			"completed %s, %s of that. "+
			"%s of the %s that a request took on average are in neither time",
		format.Time(v[1]), 100*share, format.Time(v[2]), format.Rate(expected/clients),
		format.Rate(v[0]/clients),
		format.Digits(v[0]/expected), format.Time(own-mean), format.Time(own))
}

// MixedMean returns the mean time of requests of which share are remote.
func MixedMean(local, remote, share float64) float64 { return (1-share)*local + share*remote }

// iteration compares the time of a pattern's iteration with the sum of its operations, which run
// one after the other.
func iteration(f figures) []result.Finding {
	rate, has := f.values[result.IterationRate]
	if !has || f.load.InFlight == 0 || len(f.load.Pattern) == 0 {
		return nil
	}
	whole := float64(f.load.InFlight) / rate * 1e9
	s := published.Sum{What: fmt.Sprintf("an iteration, %d at a time and %s a second,",
		f.load.InFlight, format.Digits(rate)),
		Whole: whole, Unit: "ns"}
	for _, part := range f.load.Pattern {
		each, known := f.values[part.Op+"_p50"]
		p := published.SumPart{Name: part.Op + "s", Count: float64(part.Count)}
		if known {
			p.Name += " at the median"
			p.Each = each
		}
		s.Parts = append(s.Parts, p)
	}
	return checkSum(s)
}

// goodput checks that the values of all operations suffice for the goodput.
func goodput(f figures) []result.Finding {
	v, ok := f.all(result.Throughput, result.Goodput)
	if !ok || f.load.MaxValue < 0 {
		return nil
	}
	const values = 2 // a read-modify-write has two values
	limit := values * v[0] * float64(f.load.MaxValue)
	if v[1] <= limit*(1+printed) {
		return nil
	}
	return failed("goodput", result.Error, v[1], limit,
		"%s is more than %s with values of %d bytes can give",
		format.Number(v[1], "B/s"), format.Rate(v[0]), f.load.MaxValue)
}

// tokens compares the token rate with the blocks that iterations read and write.
func tokens(f figures) []result.Finding {
	v, ok := f.all(result.IterationRate, result.TokenRate)
	if !ok || f.load.TokensPerBlock == 0 {
		return nil
	}
	blocks := 0
	for _, part := range f.load.Pattern {
		if part.Op != config.OpLookup {
			blocks += part.Count
		}
	}
	// The iteration rate counts complete iterations, the token rate all blocks.
	expected := v[0] * float64(blocks*f.load.TokensPerBlock)
	if blocks == 0 || apart(v[1], expected) <= printed {
		return nil
	}
	return failed("tokens", result.Error, v[1], expected,
		"%s iterations a second of %d blocks of %d tokens are %s tokens a second, not %s",
		format.Digits(v[0]), blocks, f.load.TokensPerBlock, format.Digits(expected),
		format.Digits(v[1]))
}

// floors checks the ratio to the floor.
func floors(f figures) (list []result.Finding) {
	floor, has := f.values[result.Floor]
	if !has || !(floor > 0) {
		return nil
	}
	if v, ok := f.all(result.FloorRatio, result.LatencyP50); ok &&
		apart(v[0], v[1]/floor) > printed {
		list = append(list, failed("floor_ratio", result.Error, v[0], v[1]/floor,
			"latency_p50 over floor is %s over %s, %s, not %s",
			format.Time(v[1]), format.Time(floor), format.Digits(v[1]/floor),
			format.Digits(v[0]))...)
	}
	return list
}

// processors checks that the threads do not use more than one second of a processor per second.
func processors(f figures) []result.Finding {
	v, ok := f.all(result.CPUPerOp, result.Throughput)
	if !ok || f.load.Threads == 0 {
		return nil
	}
	busy := v[0] * v[1] / 1e9
	if limit := float64(f.load.Threads); busy > limit*(1+printed) {
		return failed("cpu_per_op", result.Warning, busy, limit, "%s of processor time per op at "+
			"%s are %s processors, but there were %d polling threads",
			format.Time(v[0]), format.Rate(v[1]), format.Digits(busy), f.load.Threads)
	}
	return nil
}

// offered checks that an open loop did not complete more than was due.
func offered(f figures) []result.Finding {
	v, ok := f.all(result.Throughput, result.OfferedLoad)
	if !ok || v[0] <= v[1]*(1+printed) {
		return nil
	}
	return failed("offered_load", result.Warning, v[0], v[1],
		"%s were completed, but only %s were due", format.Rate(v[0]), format.Rate(v[1]))
}

// quantiles are those in the names of metrics, in order.
var quantiles = []struct {
	name string
	at   float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}}

// percentiles returns the metrics that are percentiles of one quantity, in order, for each
// quantity.
var percentiles = sync.OnceValue(func() (list [][]string) {
	for _, quantity := range append(config.OpNames(), "latency", "response", result.Iteration) {
		var names []string
		for _, q := range quantiles {
			names = append(names, quantity+"_"+q.name)
		}
		list = append(list, names)
	}
	return list
})

// meanBounds returns the lowest and the highest mean that the percentiles of the latency allow; 0
// is no bound. Between two percentiles, all values may equal the lower or the higher one.
func meanBounds(f figures) (low, high float64) {
	before, last, complete := 0.0, 0.0, false
	for _, q := range quantiles {
		v, has := f.values["latency_"+q.name]
		if !has {
			continue
		}
		low += (q.at - before) * last
		high += (q.at - before) * v
		before, last = q.at, v
		complete = q.at == 1
	}
	low += (1 - before) * last
	if !complete {
		high = 0
	}
	return low, high
}
