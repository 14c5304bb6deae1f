package consistency

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// Work is an amount, its time, and the rate that a document claims for it.
type Work struct {
	Amount    float64 `json:"amount"`
	Unit      string  `json:"unit"` // B, op, token
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
}

// Valid returns an error if a figure is not positive.
func (w Work) Valid() error {
	if !(w.Amount > 0 && w.Seconds > 0 && w.PerSecond > 0) {
		return errors.New("amount, seconds and per_second must be above 0")
	}
	return nil
}

// Check compares amount over time with the rate.
func (w Work) Check() []result.Check {
	real := w.Amount / w.Seconds
	if apart(real, w.PerSecond) <= printed {
		return nil
	}
	claimed := rateOf(w.PerSecond, w.Unit)
	return failed("work", result.Error, w.PerSecond, real, "%s %s in %s are %s, not %s, which would take %s%s",
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
		return fmt.Sprintf(". The factor is %.0f: was it counted for each of %.0f?", math.Round(factor), math.Round(factor))
	case factor < 1/1.5 && apart(1/factor, math.Round(1/factor)) <= 0.02:
		return fmt.Sprintf(". The factor is 1/%.0f: was it counted for one of %.0f, or over a longer time?", math.Round(1/factor), math.Round(1/factor))
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

// Loop is a document's figures of a polling loop.
type Loop struct {
	What string `json:"what"`
	// Loops is the number of iterations, LoopNS the time of one (0 if unknown), and Seconds the
	// time of all.
	Loops   float64 `json:"turns"`
	LoopNS  float64 `json:"turn_ns,omitempty"`
	Seconds float64 `json:"seconds"`
	// PerLoop counts events per iteration. PerSecond has the rates that the document claims
	// elsewhere for some of them.
	PerLoop   map[string]float64 `json:"per_turn"`
	PerSecond map[string]float64 `json:"per_second,omitempty"`
}

// Check compares the counters with the time that they are claimed to cover.
func (l Loop) Check() (list []result.Check) {
	for _, name := range slices.Sorted(maps.Keys(l.PerSecond)) {
		each, has := l.PerLoop[name]
		if !has || !(l.PerSecond[name] > 0) {
			continue
		}
		seconds := each * l.Loops / l.PerSecond[name]
		if apart(seconds, l.Seconds) > printed {
			list = append(list, failed("counters", result.Error, seconds, l.Seconds,
				"%s: %.3g %s in each of %s loops are %s, which at %s a second took %s s, not %s s",
				l.What, each, name, large(l.Loops), large(each*l.Loops), large(l.PerSecond[name]),
				format.Digits(seconds), format.Digits(l.Seconds))...)
		}
	}
	if l.LoopNS > 0 {
		const median = 0.25 // documents give the median, and busy loops raise the mean
		if seconds := l.Loops * l.LoopNS / 1e9; apart(seconds, l.Seconds) > median {
			list = append(list, failed("loop_time", result.Error, seconds, l.Seconds,
				"%s: %s loops of %s are %s s, not %s s; in that time a loop would have taken %s",
				l.What, large(l.Loops), format.Time(l.LoopNS), format.Digits(seconds), format.Digits(l.Seconds), format.Time(l.Seconds/l.Loops*1e9))...)
		}
	}
	return list
}

func large(n float64) string { return strings.TrimSuffix(format.Rate(n), " op/s") }

// Sum is a whole and its parts as a document claims them.
type Sum struct {
	What  string    `json:"what"`
	Whole float64   `json:"whole"`
	Unit  string    `json:"unit"`
	Parts []SumPart `json:"parts"`
}

// SumPart is Count times Each; an Each of 0 is unknown.
type SumPart struct {
	Name  string  `json:"name"`
	Count float64 `json:"count"`
	Each  float64 `json:"each"`
}

// Check compares the sum of the parts with the whole. Parts without figures may explain a rest.
func (s Sum) Check() []result.Check {
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
	what := fmt.Sprintf("%s takes %s; %s add up to %s", s.What, format.Number(s.Whole, s.Unit), join(known), format.Number(sum, s.Unit))
	switch {
	case left < 0:
		return failed("sum", result.Error, sum, s.Whole, "%s, which is more than the whole", what)
	case len(unknown) == 0:
		return failed("sum", result.Warning, left, unexplained, "%s, and leave %.0f%% unexplained", what, 100*left)
	}
	rest := (s.Whole - sum) / open
	return failed("sum", result.Warning, left, unexplained, "%s, and leave %.0f%% unexplained: %s have no figure and would have to take %s each",
		what, 100*left, join(unknown), format.Number(rest, s.Unit))
}

func join(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// Limit is a value and the bound that a document claims for it.
type Limit struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`
	// Of describes the bound: "4 NICs of 25 Gbit/s".
	Of string `json:"of"`
}

// Check compares the value with the bound.
func (l Limit) Check() []result.Check {
	if l.Value <= l.Limit*(1+printed) {
		return nil
	}
	return failed("limit", result.Error, l.Value, l.Limit, "%s is %s, %s times %s (%s): one of them is wrong, or that is not a limit",
		l.What, format.Number(l.Value, l.Unit), format.Digits(l.Value/l.Limit), l.Of, format.Number(l.Limit, l.Unit))
}

// Ratio is two figures and the factor between them that a document claims. Each may be a range.
type Ratio struct {
	What string `json:"what"`
	// From and To have one figure, or the two ends of a range.
	From []float64 `json:"from"`
	To   []float64 `json:"to"`
	Unit string    `json:"unit"`
	// Claimed is From over To, one figure or a range.
	Claimed []float64 `json:"claimed"`
}

// Check compares the factor that the figures allow with the claimed one.
func (r Ratio) Check() []result.Check {
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
	return failed("ratio", severity, claimedHigh, high, "%s: %s over %s is a factor of %s, but %s is claimed, %s",
		r.What, span(r.From, r.Unit), span(r.To, r.Unit), span([]float64{low, high}, ""), span(r.Claimed, ""), judged)
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

// Percentiles is how a document computed its percentiles.
type Percentiles struct {
	// Combined is "averaged" or "merged".
	Combined string `json:"combined" jsonschema:"enum=averaged,enum=merged"`
	// Over is the number of processes, threads or runs.
	Over int    `json:"over"`
	Of   string `json:"of"`
}

// Averaged is the value of Percentiles.Combined for averages, which are a mistake.
const Averaged = "averaged"

// Check warns of averages.
func (p Percentiles) Check() []result.Check {
	if p.Combined != Averaged || p.Over < 2 {
		return nil
	}
	return failed("averaged_percentiles", result.Warning, float64(p.Over), 1,
		"the percentiles are averages over %d %s, which are not percentiles: the p99 of all calls may be anywhere between the lowest and the highest p99 of the %s; merge histograms instead",
		p.Over, p.Of, p.Of)
}

// Timed is what a benchmark does between two readings of the clock.
type Timed struct {
	What string `json:"what"`
	// Calls are the system calls that are timed, and Of those that the operation consists of.
	Calls []string `json:"calls"`
	Of    []string `json:"of"`
}

// Check warns of timed calls that are no part of the operation.
func (t Timed) Check() []result.Check {
	extra := slices.DeleteFunc(slices.Clone(t.Calls), func(call string) bool { return slices.Contains(t.Of, call) })
	if len(extra) == 0 {
		return nil
	}
	own := "of none"
	if len(t.Of) > 0 {
		own = "of " + join(t.Of)
	}
	return failed("timed", result.Warning, float64(len(extra)), 0,
		"the timed loop of %s has system calls that are no part of the operation, which consists %s: %s", t.What, own, join(extra))
}

// Lookups is how often a benchmark looks up something that exists.
type Lookups struct {
	What  string  `json:"what"`
	Count float64 `json:"count"`
	// Space is the size in bytes of the range in which the benchmark picks addresses at random, and
	// Covered that of the part with something to find.
	Space   float64 `json:"space"`
	Covered float64 `json:"covered"`
}

// Valid returns an error if there is nothing to pick from, or more to find than that.
func (l Lookups) Valid() error {
	if !(l.Space > 0 && l.Covered >= 0 && l.Covered <= l.Space) {
		return errors.New("space must be above 0, and covered from 0 to space")
	}
	return nil
}

// Check warns if most lookups find nothing.
func (l Lookups) Check() []result.Check {
	const most = 0.5
	share := l.Covered / l.Space
	if share >= most {
		return nil
	}
	return failed("lookups", result.Warning, share, most,
		"the lookups of %s mostly find nothing: %s%% of the addresses that they pick from have something to find, so about %s of %s lookups find it",
		l.What, format.Digits(100*share), format.Digits(l.Count*share), format.Digits(l.Count))
}
