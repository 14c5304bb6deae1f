package trial

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aclements/go-moremath/stats"

	"transportbench/core/base/parallel"
	"transportbench/core/base/record"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Fewest is the least number of sets of a trial.
const Fewest = 3

// Trial is the outcome over all pairs of sets.
type Trial struct {
	Kind  string  `json:"kind"` // "trial"
	Sets  int     `json:"sets"`
	Pairs int     `json:"pairs"`
	Alpha float64 `json:"alpha"` // of each comparison, over all of its tests together
	// ApartS is the time in seconds between the sets of a pair, the median, and LastAt the start of
	// the last set.
	ApartS float64   `json:"apart_s"`
	LastAt time.Time `json:"last_at"`
	// Revision is that of the program that measured all the sets; empty if it is unknown.
	Revision string `json:"revision,omitempty"`
	// Repeats is the fewest of a cell.
	Repeats int `json:"repeats"`
	// Limit is the smallest minimum effect, as a share, with which at most alpha of the comparisons
	// have a verdict.
	Limit float64 `json:"limit"`
	// Injected is the share by which the operations of a transport take longer.
	Injected float64 `json:"injected"`
	Verdicts
	// Transports are the verdicts on transports over all loads alone, and Cells those on cells.
	Transports Verdicts `json:"transports"`
	Cells      Verdicts `json:"cells"`
	// Withheld is that of all metrics.
	Withheld Rate     `json:"withheld"`
	Metrics  []Metric `json:"metrics"`
	// Quiet is the outcome over the pairs of quiet sets, if the caller knows which those are.
	Quiet *Trial `json:"quiet,omitempty"`
}

// Verdicts are rates of verdicts. False is the share of the comparisons with any, and Found that of
// the comparisons with a slower transport in which that is worse in any metric.
type Verdicts struct {
	False Rate `json:"false"`
	Found Rate `json:"found"`
}

// Metric is the outcome in one metric.
type Metric struct {
	Metric string `json:"metric"`
	// Machine has the quartiles and the largest movement of the machine, as shares in either
	// direction.
	Machine [4]float64 `json:"machine"`
	// Spread is the median of the spreads of the other transports' changes.
	Spread float64 `json:"spread"`
	// Withheld is the share of the changes of cells that cannot have a verdict, because the machine
	// moved too far or was disturbed.
	Withheld Rate `json:"withheld"`
	// Verdicts are those in this metric, but False is a share of the tests on cells.
	Verdicts
	// Unadjusted is the share of these tests with a p below alpha before the adjustment for their
	// number.
	Unadjusted Rate `json:"unadjusted"`
}

// Rate is a share with its 95% interval.
type Rate struct {
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Count int     `json:"count"` // of what it is a share of
}

// share is a number of hits among trials.
type share struct{ hits, trials float64 }

func (s *share) add(hit bool) {
	s.trials++
	if hit {
		s.hits++
	}
}

// The tallies of a pair that are not of one metric: of all verdicts, of those on transports over
// all loads, and of those on cells.
const (
	ofAll        = ""
	ofTransports = "transports"
	ofCells      = "cells"
)

// tallyOf returns the tally of a row besides those of its metric and of all.
func tallyOf(row *compare.Change) string {
	if row.Config == nil {
		return ofTransports
	}
	return ofCells
}

// tally is what one pair of sets showed in one metric, or in all together.
type tally struct {
	wrong, unadjusted, found, withheld share
	machine, spread                    []float64
}

// pair is two sets, by index, with its tallies by metric, and those of verdicts.
type pair struct {
	old, new int
	tallies  map[string]*tally
	limit    float64 // the smallest minimum effect without a verdict
	apart    time.Duration
	last     time.Time
	repeats  int
}

// Of compares all pairs of sets, which must be equal except for their time. injected is the share
// by which each transport is slowed down in turn. quiet, unless it is nil, tells of each set
// whether it was measured on a quiet machine.
func Of(sets []*set.Set, quiet []bool, o compare.Options, injected float64) (*Trial, error) {
	if len(sets) < Fewest {
		return nil, fmt.Errorf("%d sets are too few for a trial, which needs %d", len(sets), Fewest)
	}
	if n := count(quiet); n > 0 && n < Fewest {
		return nil, fmt.Errorf("%d quiet sets are too few for a trial, which needs %d", n, Fewest)
	}
	var pairs []*pair
	for older := range sets {
		for newer := older + 1; newer < len(sets); newer++ {
			p := &pair{old: older, new: newer, tallies: map[string]*tally{}}
			for _, of := range append([]string{ofAll, ofTransports, ofCells}, o.Metrics...) {
				p.tallies[of] = new(tally)
			}
			pairs = append(pairs, p)
		}
	}
	err := parallel.Each(len(pairs), func(i int) error {
		return pairs[i].compare(sets, o, injected)
	})
	if err != nil {
		return nil, err
	}
	t := conclude(pairs, o, injected)
	t.Revision = revisionOf(sets)
	if count(quiet) > 0 {
		t.Quiet = conclude(slices.DeleteFunc(pairs, func(p *pair) bool {
			return !quiet[p.old] || !quiet[p.new]
		}), o, injected)
	}
	return t, nil
}

// revisionOf returns the revision that sets have in common, or "".
func revisionOf(sets []*set.Set) string {
	var revisions []string
	for _, s := range sets {
		for _, tool := range s.Tools() {
			revisions = append(revisions, tool.Revision)
		}
	}
	if slices.Sort(revisions); len(slices.Compact(revisions)) != 1 {
		return ""
	}
	return revisions[0]
}

func count(list []bool) (n int) {
	for _, is := range list {
		if is {
			n++
		}
	}
	return n
}

// conclude returns the outcome over pairs, which are all of some sets.
func conclude(pairs []*pair, o compare.Options, injected float64) *Trial {
	rate := func(metric string, of func(*tally) share) Rate {
		return jackknife(pairs, func(p *pair) share { return of(p.tallies[metric]) })
	}
	verdicts := func(of string) Verdicts {
		return Verdicts{rate(of, func(t *tally) share { return t.wrong }),
			rate(of, func(t *tally) share { return t.found })}
	}
	t := &Trial{Kind: "trial", Sets: len(setsIn(pairs)), Pairs: len(pairs), Alpha: o.Alpha,
		Injected: injected, Verdicts: verdicts(ofAll), Transports: verdicts(ofTransports),
		Cells: verdicts(ofCells), Repeats: pairs[0].repeats,
		Withheld: rate(ofCells, func(t *tally) share { return t.withheld })}
	var limits, apart []float64
	for _, p := range pairs {
		limits, apart = append(limits, p.limit), append(apart, p.apart.Seconds())
		t.Repeats = min(t.Repeats, p.repeats)
		if p.last.After(t.LastAt) {
			t.LastAt = p.last
		}
	}
	slices.Sort(limits)
	allowed := int(o.Alpha * float64(len(limits))) // pairs that may have a verdict
	t.Limit, t.ApartS = limits[len(limits)-1-allowed], record.Median(apart)
	for _, name := range o.Metrics {
		m := Metric{Metric: name, Verdicts: verdicts(name),
			Unadjusted: rate(name, func(t *tally) share { return t.unadjusted }),
			Withheld:   rate(name, func(t *tally) share { return t.withheld })}
		var machine, spread []float64
		for _, p := range pairs {
			machine = append(machine, p.tallies[name].machine...)
			spread = append(spread, p.tallies[name].spread...)
		}
		if slices.Sort(machine); len(machine) > 0 {
			for i, at := range []float64{0.25, 0.5, 0.75, 1} {
				m.Machine[i] = machine[int(at*float64(len(machine)-1))]
			}
			m.Spread = record.Median(spread)
		}
		if m.Withheld.Count > 0 {
			t.Metrics = append(t.Metrics, m)
		}
	}
	return t
}

// Kept returns the outcome as a calibration keeps it.
func (t *Trial) Kept() *calibration.Pairs {
	p := &calibration.Pairs{LastAt: t.LastAt, Revision: t.Revision, Repeats: t.Repeats,
		ApartS: t.ApartS, Limit: t.Limit, Injected: t.Injected, PairRates: t.rates()}
	if t.Quiet != nil {
		p.QuietPairs = new(t.Quiet.rates())
	}
	return p
}

func (t *Trial) rates() calibration.PairRates {
	of := func(r Rate) calibration.Estimate {
		return calibration.Estimate{Value: r.Share, Low: &r.Low, High: &r.High}
	}
	rates := calibration.PairRates{Sets: t.Sets, False: of(t.False),
		FalseOnTransports: of(t.Transports.False), FalseOnCells: of(t.Cells.False),
		Withheld: of(t.Withheld), Found: of(t.Found)}
	for _, m := range t.Metrics {
		rates.Moved = max(rates.Moved, m.Machine[1])
	}
	return rates
}

// compare compares the sets as they are, and with each transport slowed down.
func (p *pair) compare(sets []*set.Set, o compare.Options, injected float64) error {
	old, new := sets[p.old], sets[p.new]
	report, err := compare.Diff(old, new, o)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", old.Source, new.Source, err)
	}
	p.limit, p.apart = report.Claim(), report.NewSide.From.Sub(report.OldSide.From).Abs()
	p.last = report.NewSide.To
	if report.OldSide.To.After(p.last) {
		p.last = report.OldSide.To
	}
	p.repeats = min(report.OldSide.MinRepeats, report.NewSide.MinRepeats)
	transports := map[string]bool{}
	for i := range report.Changes {
		c, t := &report.Changes[i], p.tallies[report.Changes[i].Metric]
		transports[c.Transport] = true
		if c.Control != nil {
			t.machine = append(t.machine, math.Expm1(math.Abs(math.Log1p(c.Control.Machine))))
			t.spread = append(t.spread, c.Control.Spread)
		}
		if c.Verdict != compare.Incomparable {
			t.withheld.add(c.PHolm == nil)
			p.tallies[ofCells].withheld.add(c.PHolm == nil)
		}
		if c.P != nil && c.PHolm != nil {
			t.wrong.add(c.Verdict == compare.Better || c.Verdict == compare.Worse)
			t.unadjusted.add(*c.P < o.Alpha)
		}
	}
	wrong := map[string]bool{}
	for _, c := range report.Rows() {
		if c.Verdict == compare.Better || c.Verdict == compare.Worse {
			wrong[ofAll], wrong[tallyOf(c)] = true, true
		}
	}
	for _, of := range []string{ofAll, ofTransports, ofCells} {
		p.tallies[of].wrong.add(wrong[of])
	}
	for _, transport := range slices.Sorted(maps.Keys(transports)) {
		report, err := compare.Diff(old, slower(new, transport, injected), o)
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for _, c := range report.Rows() {
			if c.Transport == transport && c.Verdict == compare.Worse {
				found[c.Metric], found[ofAll], found[tallyOf(c)] = true, true, true
			}
		}
		for metric, t := range p.tallies {
			t.found.add(found[metric])
		}
	}
	return nil
}

// slower returns a set in which every operation of a transport takes longer by a share.
func slower(s *set.Set, transport string, by float64) *set.Set {
	changed := *s
	changed.Cells = slices.Clone(s.Cells)
	for i := range changed.Cells {
		c := &changed.Cells[i]
		if c.Transport() != transport {
			continue
		}
		c.Samples = maps.Clone(c.Samples)
		for name, values := range c.Samples {
			factor := 1.0
			switch {
			case name == result.Throughput, name == result.Goodput:
				factor = 1 / (1 + by)
			case strings.HasPrefix(name, "latency_"), strings.HasPrefix(name, "response_"):
				factor = 1 + by
			}
			c.Samples[name] = slices.Clone(values)
			for j := range values {
				c.Samples[name][j] *= factor
			}
		}
	}
	return &changed
}

// setsIn returns the sets of pairs, in order.
func setsIn(pairs []*pair) []int {
	sets := map[int]bool{}
	for _, p := range pairs {
		sets[p.old], sets[p.new] = true, true
	}
	return slices.Sorted(maps.Keys(sets))
}

// jackknife returns the share over all pairs of some sets, with the interval by leaving out each
// set in turn. With few hits the jackknife knows little of the scatter, so the interval is no
// narrower than the exact one of the pairs that share no set, whose variance is the most that all
// pairs can have (Hoeffding, A class of statistics with asymptotically normal distribution, 1948).
func jackknife(pairs []*pair, of func(*pair) share) Rate {
	sets := setsIn(pairs)
	n := len(sets)
	without := func(one int) (share float64, trials int) {
		hits, count := 0.0, 0.0
		for _, p := range pairs {
			if p.old != one && p.new != one {
				s := of(p)
				hits, count = hits+s.hits, count+s.trials
			}
		}
		return hits / max(count, 1), int(count)
	}
	const none, tail = -1, 0.025
	var r Rate
	r.Share, r.Count = without(none)
	sum, squares := 0.0, 0.0
	for _, one := range sets {
		s, _ := without(one)
		sum, squares = sum+s, squares+s*s
	}
	variance := float64(n-1) / float64(n) * max(0, squares-sum*sum/float64(n))
	reach := stats.InvCDF(stats.TDist{V: float64(n - 1)})(1-tail) * math.Sqrt(variance)
	apart := float64(n) / 2
	low, high := calibration.BinomialInterval(r.Share*apart, apart)
	r.Low, r.High = max(0, min(low, r.Share-reach)), min(1, max(high, r.Share+reach))
	return r
}
