package consistency

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
)

// checkWork compares amount over time with the rate.
func checkWork(w published.Work) []result.Finding {
	real := w.Amount / w.Seconds
	if apart(real, w.PerSecond) <= printed {
		return nil
	}
	claimed := rateOf(w.PerSecond, w.Unit)
	return failed("work", result.Error, w.PerSecond, real,
		"%s %s in %s are %s, not %s, which would take %s%s",
		format.Digits(w.Amount), w.Unit, format.Time(w.Seconds*1e9), rateOf(real, w.Unit), claimed,
		format.Time(w.Amount/w.PerSecond*1e9), slip(w.PerSecond/real, w.Unit))
}

// slip names the likely mistake behind a wrong factor.
func slip(factor float64, unit string) string {
	const near = 0.1
	switch {
	case unit == "B" && apart(factor, 8) <= near:
		return ". The factor is 8: bits taken for bytes"
	case unit == "B" && apart(factor, 1.0/8) <= near:
		return ". The factor is 1/8: bytes taken for bits"
	case factor > 1.5 && apart(factor, math.Round(factor)) <= 0.02:
		return fmt.Sprintf(". The factor is %.0f: was it counted for each of %.0f?",
			math.Round(factor), math.Round(factor))
	case factor < 1/1.5 && apart(1/factor, math.Round(1/factor)) <= 0.02:
		return fmt.Sprintf(
			". The factor is 1/%.0f: was it counted for one of %.0f, or over a longer time?",
			math.Round(1/factor), math.Round(1/factor))
	}
	return ""
}

func rateOf(perSecond float64, unit string) string {
	switch unit {
	case "op", "B":
		return format.Number(perSecond, unit+"/s")
	}
	return format.Digits(perSecond) + " " + unit + "/s"
}

// checkLoop compares the counters with the time that they are claimed to cover.
func checkLoop(l published.Loop) (list []result.Finding) {
	for _, name := range slices.Sorted(maps.Keys(l.PerSecond)) {
		each, has := l.PerLoop[name]
		if !has || !(l.PerSecond[name] > 0) {
			continue
		}
		seconds := each * l.Loops / l.PerSecond[name]
		if apart(seconds, l.Seconds) > printed {
			list = append(list, failed("counters", result.Error, seconds, l.Seconds,
				"%s: %.3g %s in each of %s loops are %s, which at %s a second took %s s, not %s s",
				l.What, each, name, format.Magnitude(l.Loops), format.Magnitude(each*l.Loops),
				format.Magnitude(l.PerSecond[name]), format.Digits(seconds),
				format.Digits(l.Seconds))...)
		}
	}
	if l.LoopNS > 0 {
		const median = 0.25 // documents give the median, and busy loops raise the mean
		if seconds := l.Loops * l.LoopNS / 1e9; apart(seconds, l.Seconds) > median {
			list = append(list, failed("loop_time", result.Error, seconds, l.Seconds,
				"%s: %s loops of %s are %s s, not %s s; in that time a loop would have taken %s",
				l.What, format.Magnitude(l.Loops), format.Time(l.LoopNS), format.Digits(seconds),
				format.Digits(l.Seconds), format.Time(l.Seconds/l.Loops*1e9))...)
		}
	}
	return list
}

// checkSum compares the sum of the parts with the whole. Parts without figures may explain a rest.
func checkSum(s published.Sum) []result.Finding {
	sum, open := 0.0, 0.0
	var known, unknown []string
	for _, p := range s.Parts {
		sum += p.Count * p.Each
		text := fmt.Sprintf("%g %s", p.Count, p.Name)
		if p.Count == 1 {
			text = p.Name
		}
		if p.Each == 0 {
			open += p.Count
			unknown = append(unknown, text)
			continue
		}
		known = append(known, fmt.Sprintf("%s of %s", text, format.Number(p.Each, s.Unit)))
	}
	left := 1 - sum/s.Whole
	if len(known) == 0 || math.Abs(left) <= unexplained {
		return nil
	}
	what := fmt.Sprintf("%s takes %s; %s add up to %s", s.What, format.Number(s.Whole, s.Unit),
		format.List(known), format.Number(sum, s.Unit))
	switch {
	case left < 0:
		return failed("sum", result.Error, sum, s.Whole, "%s, which is more than the whole", what)
	case len(unknown) == 0:
		return failed("sum", result.Warning, left, unexplained, "%s, and leave %.0f%% unexplained",
			what, 100*left)
	}
	rest := (s.Whole - sum) / open
	return failed("sum", result.Warning, left, unexplained,
		"%s, and leave %.0f%% unexplained: %s have no figure and would have to take %s each",
		what, 100*left, format.List(unknown), format.Number(rest, s.Unit))
}

// checkLimit compares the value with the bound.
func checkLimit(l published.Limit) []result.Finding {
	if l.Value <= l.Limit*(1+printed) {
		return nil
	}
	return failed("limit", result.Error, l.Value, l.Limit,
		"%s is %s, %s times %s (%s): one of them is wrong, or that is not a limit",
		l.What, format.Number(l.Value, l.Unit), format.Digits(l.Value/l.Limit), l.Of,
		format.Number(l.Limit, l.Unit))
}

// checkRatio compares the factor that the figures allow with the claimed one.
func checkRatio(r published.Ratio) []result.Finding {
	if len(r.From) == 0 || len(r.To) == 0 || len(r.Claimed) == 0 {
		return nil
	}
	low, high := slices.Min(r.From)/slices.Max(r.To), slices.Max(r.From)/slices.Min(r.To)
	claimedLow, claimedHigh := slices.Min(r.Claimed), slices.Max(r.Claimed)
	if apart(low, claimedLow) <= printed && apart(high, claimedHigh) <= printed {
		return nil
	}
	// A claim within the range that the figures allow is imprecise, any other is wrong.
	severity, judged := result.Warning, "which is only a part of that range"
	if claimedLow < low*(1-printed) || claimedHigh > high*(1+printed) {
		severity, judged = result.Error, "which is outside of that"
	}
	return failed("ratio", severity, claimedHigh, high,
		"%s: %s over %s is a factor of %s, but %s is claimed, %s",
		r.What, span(r.From, r.Unit), span(r.To, r.Unit), span([]float64{low, high}, ""),
		span(r.Claimed, ""), judged)
}

func span(values []float64, unit string) string {
	low, high := slices.Min(values), slices.Max(values)
	show := func(v float64) string {
		if unit == "" {
			return format.Digits(v)
		}
		return format.Number(v, unit)
	}
	if apart(low, high) < 1e-9 {
		return show(low)
	}
	return show(low) + " to " + show(high)
}

// checkPercentiles warns of averages.
func checkPercentiles(p published.Percentiles) []result.Finding {
	if p.Combined != published.Averaged || p.Over < 2 {
		return nil
	}
	return failed("averaged_percentiles", result.Warning, float64(p.Over), 1,
		"the percentiles are averages over %d %s, which are not percentiles: the p99 of all "+
			"calls may be anywhere between the lowest and the highest p99 of the %s; merge "+
			"histograms instead",
		p.Over, p.Of, p.Of)
}

// checkTimed warns of timed calls that are no part of the operation.
func checkTimed(t published.Timed) []result.Finding {
	extra := slices.DeleteFunc(slices.Clone(t.Calls),
		func(call string) bool { return slices.Contains(t.Of, call) })
	if len(extra) == 0 {
		return nil
	}
	own := "of none"
	if len(t.Of) > 0 {
		own = "of " + format.List(t.Of)
	}
	return failed("timed", result.Warning, float64(len(extra)), 0,
		"the timed loop of %s has system calls that are no part of the operation, which consists "+
			"%s: %s", t.What, own, format.List(extra))
}

// checkLookups warns if most lookups find nothing.
func checkLookups(l published.Lookups) []result.Finding {
	const limit = 0.5
	share := l.Covered / l.Space
	if share >= limit {
		return nil
	}
	return failed("lookups", result.Warning, share, limit,
		"the lookups of %s mostly find nothing: %s%% of the addresses that they pick from have "+
			"something to find, so about %s of %s lookups find it",
		l.What, format.Digits(100*share), format.Digits(l.Count*share), format.Digits(l.Count))
}
