package consistency

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
)

// Work is an amount, the time that it took, and the rate that a source gives
// for it.
type Work struct {
	Amount    float64 `json:"amount"`
	Unit      string  `json:"unit"` // B, op, token
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
}

// Valid refuses what no arithmetic can be done with.
func (w Work) Valid() error {
	if !(w.Amount > 0 && w.Seconds > 0 && w.PerSecond > 0) {
		return errors.New("an amount, a time or a rate is not above 0")
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
	return failed("work", result.Error, w.PerSecond, real, "%s %s in %s are %s and not %s, for which it takes %s%s",
		format.Digits(w.Amount), w.Unit, format.Time(w.Seconds*1e9), rateOf(real, w.Unit), claimed,
		format.Time(w.Amount/w.PerSecond*1e9), slip(w.PerSecond/real, w.Unit))
}

// slip names the mistake that a wrong factor looks like.
func slip(factor float64, unit string) string {
	const near = 0.1
	switch {
	case unit == "B" && apart(factor, 8) <= near:
		return ". It is 8 times as much, as bits taken for bytes are"
	case unit == "B" && apart(factor, 1.0/8) <= near:
		return ". It is an eighth, as bytes taken for bits are"
	case factor > 1.5 && apart(factor, math.Round(factor)) <= 0.02:
		return fmt.Sprintf(". It is %.0f times as much: was it counted for each of %.0f?", math.Round(factor), math.Round(factor))
	case factor < 1/1.5 && apart(1/factor, math.Round(1/factor)) <= 0.02:
		return fmt.Sprintf(". It is 1/%.0f of it: was it counted for one of %.0f, or over a longer time?", math.Round(1/factor), math.Round(1/factor))
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

// Loop is what a source says of a polling loop: how often it turned, what
// happened in each turn, and for how long.
type Loop struct {
	What string `json:"what"`
	// Turns are all that there were, of TurnNS each (0: not told) in Seconds.
	Turns   float64 `json:"turns"`
	TurnNS  float64 `json:"turn_ns,omitempty"`
	Seconds float64 `json:"seconds"`
	// PerTurn are events in each turn, and PerSecond the rate that the source
	// gives elsewhere for some of them.
	PerTurn   map[string]float64 `json:"per_turn"`
	PerSecond map[string]float64 `json:"per_second,omitempty"`
}

// Check asks whether the counters fit the time that they are said to be of.
func (l Loop) Check() (list []result.Check) {
	for _, name := range slices.Sorted(maps.Keys(l.PerSecond)) {
		each, has := l.PerTurn[name]
		if !has || !(l.PerSecond[name] > 0) {
			continue
		}
		seconds := each * l.Turns / l.PerSecond[name]
		if apart(seconds, l.Seconds) > printed {
			list = append(list, failed("counters", result.Error, seconds, l.Seconds,
				"%s: %.3g %s in each of %s turns are %s, which at %s a second took %s s and not %s s",
				l.What, each, name, large(l.Turns), large(each*l.Turns), large(l.PerSecond[name]),
				format.Digits(seconds), format.Digits(l.Seconds))...)
		}
	}
	if l.TurnNS > 0 {
		const median = 0.25 // it stands for the mean, which busy turns raise
		if seconds := l.Turns * l.TurnNS / 1e9; apart(seconds, l.Seconds) > median {
			list = append(list, failed("loop_time", result.Error, seconds, l.Seconds,
				"%s: %s turns of %s are %s s and not %s s; in that time a turn would have taken %s",
				l.What, large(l.Turns), format.Time(l.TurnNS), format.Digits(seconds), format.Digits(l.Seconds), format.Time(l.Seconds/l.Turns*1e9))...)
		}
	}
	return list
}

func large(n float64) string { return strings.TrimSuffix(format.Rate(n), " op/s") }

// Sum is a whole and what a source says that it consists of.
type Sum struct {
	What  string    `json:"what"`
	Whole float64   `json:"whole"`
	Unit  string    `json:"unit"`
	Parts []SumPart `json:"parts"`
}

// SumPart is Count times Each; a part without a figure has an Each of 0.
type SumPart struct {
	Name  string  `json:"name"`
	Count float64 `json:"count"`
	Each  float64 `json:"each"`
}

// Check compares the parts with the whole. What they leave may be that of the
// parts that have no figures.
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
	if len(known) == 0 || math.Abs(left) <= unclear {
		return nil
	}
	what := fmt.Sprintf("%s takes %s; %s come to %s", s.What, format.Number(s.Whole, s.Unit), join(known), format.Number(sum, s.Unit))
	switch {
	case left < 0:
		return failed("sum", result.Error, sum, s.Whole, "%s, which is more than the whole", what)
	case len(unknown) == 0:
		return failed("sum", result.Warning, left, unclear, "%s, and leave %.0f%% unexplained", what, 100*left)
	}
	rest := (s.Whole - sum) / open
	return failed("sum", result.Warning, left, unclear, "%s, and leave %.0f%% unexplained: %s have no figure, and would have to take %s each",
		what, 100*left, join(unknown), format.Number(rest, s.Unit))
}

func join(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// Limit is a value and what a source says that it cannot exceed.
type Limit struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`
	// Of says what the limit is: "4 NICs of 25 Gbit/s".
	Of string `json:"of"`
}

// Check compares the two.
func (l Limit) Check() []result.Check {
	if l.Value <= l.Limit*(1+printed) {
		return nil
	}
	return failed("limit", result.Error, l.Value, l.Limit, "%s is %s, %s times %s (%s): either is wrong, or that is no limit",
		l.What, format.Number(l.Value, l.Unit), format.Digits(l.Value/l.Limit), l.Of, format.Number(l.Limit, l.Unit))
}

// Ratio is two figures, each of which may be a range, and the factor between
// them that a source gives.
type Ratio struct {
	What string `json:"what"`
	// From and To are one figure or two, the ends of a range.
	From []float64 `json:"from"`
	To   []float64 `json:"to"`
	Unit string    `json:"unit"`
	// Claimed is the factor from To to From, one figure or a range.
	Claimed []float64 `json:"claimed"`
}

// Check compares the factor that the figures allow with the one that is given.
func (r Ratio) Check() []result.Check {
	if len(r.From) == 0 || len(r.To) == 0 || len(r.Claimed) == 0 {
		return nil
	}
	low, high := slices.Min(r.From)/slices.Max(r.To), slices.Max(r.From)/slices.Min(r.To)
	claimedLow, claimedHigh := slices.Min(r.Claimed), slices.Max(r.Claimed)
	if apart(low, claimedLow) <= printed && apart(high, claimedHigh) <= printed {
		return nil
	}
	// What claims less than the figures allow is imprecise, and what claims more
	// is wrong.
	severity, judged := result.Warning, "which is a part of that"
	if claimedLow < low*(1-printed) || claimedHigh > high*(1+printed) {
		severity, judged = result.Error, "which they do not give"
	}
	return failed("ratio", severity, claimedHigh, high, "%s: %s over %s is a factor of %s, and %s is claimed, %s",
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

// Percentiles is what a source says of how its percentiles came about.
type Percentiles struct {
	// Combined is "averaged" or "merged".
	Combined string `json:"combined" jsonschema:"enum=averaged,enum=merged"`
	// Over is how many processes, threads or runs they are of.
	Over int    `json:"over"`
	Of   string `json:"of"`
}

// Averaged is the value of Percentiles.Combined that is a mistake.
const Averaged = "averaged"

// Check refuses averages.
func (p Percentiles) Check() []result.Check {
	if p.Combined != Averaged || p.Over < 2 {
		return nil
	}
	return failed("averaged_percentiles", result.Warning, float64(p.Over), 1,
		"the percentiles are averages over %d %s, which are no percentiles of anything: the p99 of all calls may be anywhere between the lowest and the highest p99 of the %s; merge histograms instead",
		p.Over, p.Of, p.Of)
}
