package trial

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

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
	// Injected is the share by which the operations of a transport take longer.
	Injected float64 `json:"injected"`
	// False is the share of the comparisons with any verdict, and Found that of the comparisons
	// with a slower transport in which that is worse in any metric.
	False   Rate     `json:"false"`
	Found   Rate     `json:"found"`
	Metrics []Metric `json:"metrics"`
}

// Metric is the outcome in one metric.
type Metric struct {
	Metric string `json:"metric"`
	// Machine has the quartiles and the largest movement of the machine, as shares in either
	// direction.
	Machine [4]float64 `json:"machine"`
	// Spread is the median of the spreads of the other transports' changes.
	Spread float64 `json:"spread"`
	// Withheld is the share of the changes without a verdict because the machine moved too far.
	Withheld Rate `json:"withheld"`
	// False is the share of the tests with a verdict, and Unadjusted that of the tests with a p
	// below alpha before the adjustment for their number.
	False      Rate `json:"false"`
	Unadjusted Rate `json:"unadjusted"`
	// Found is the share of the comparisons with a slower transport in which that is worse in this
	// metric under any load.
	Found Rate `json:"found"`
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

// tally is what one pair of sets showed in one metric, or in all together.
type tally struct {
	wrong, unadjusted, found, withheld share
	machine, spread                    []float64
}

// pair is two sets, by index, with its tallies by metric; "" has that of the comparison.
type pair struct {
	old, new int
	tallies  map[string]*tally
}

// Of compares all pairs of sets, which must be equal except for their time. injected is the share
// by which each transport is slowed down in turn.
func Of(sets []*set.Set, o compare.Options, injected float64) (*Trial, error) {
	if len(sets) < Fewest {
		return nil, fmt.Errorf("%d sets are too few for a trial, which needs %d", len(sets), Fewest)
	}
	var pairs []*pair
	for older := range sets {
		for newer := older + 1; newer < len(sets); newer++ {
			p := &pair{old: older, new: newer, tallies: map[string]*tally{"": {}}}
			for _, metric := range o.Metrics {
				p.tallies[metric] = new(tally)
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
	rate := func(metric string, of func(*tally) share) Rate {
		return jackknife(len(sets), pairs, func(p *pair) share { return of(p.tallies[metric]) })
	}
	wrong := func(t *tally) share { return t.wrong }
	found := func(t *tally) share { return t.found }
	t := &Trial{Kind: "trial", Sets: len(sets), Pairs: len(pairs), Alpha: o.Alpha,
		Injected: injected, False: rate("", wrong), Found: rate("", found)}
	for _, name := range o.Metrics {
		m := Metric{Metric: name, False: rate(name, wrong), Found: rate(name, found),
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
	return t, nil
}

// compare compares the sets as they are, and with each transport slowed down.
func (p *pair) compare(sets []*set.Set, o compare.Options, injected float64) error {
	old, new := sets[p.old], sets[p.new]
	report, err := compare.Diff(old, new, o)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", old.Source, new.Source, err)
	}
	transports := map[string]bool{}
	for i := range report.Changes {
		c, t := &report.Changes[i], p.tallies[report.Changes[i].Metric]
		transports[c.Transport] = true
		if c.Control != nil {
			t.machine = append(t.machine, math.Expm1(math.Abs(math.Log1p(c.Control.Machine))))
			t.spread = append(t.spread, c.Control.Spread)
		}
		t.withheld.add(c.MovedTooFar())
		if c.P != nil && c.PHolm != nil {
			t.wrong.add(c.Verdict == compare.Better || c.Verdict == compare.Worse)
			t.unadjusted.add(*c.P < o.Alpha)
		}
	}
	p.tallies[""].wrong.add(report.Count(compare.Better)+report.Count(compare.Worse) > 0)
	for _, transport := range slices.Sorted(maps.Keys(transports)) {
		report, err := compare.Diff(old, slower(new, transport, injected), o)
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for i := range report.Changes {
			if c := &report.Changes[i]; c.Transport == transport && c.Verdict == compare.Worse {
				found[c.Metric], found[""] = true, true
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

// jackknife returns the share over all pairs of n sets, with the interval by leaving out each set
// in turn. With few hits the jackknife knows little of the scatter, so the interval is no narrower
// than the exact one of the pairs that share no set, whose variance is the most that all pairs can
// have (Hoeffding, A class of statistics with asymptotically normal distribution, 1948).
func jackknife(n int, pairs []*pair, of func(*pair) share) Rate {
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
	for i := range n {
		s, _ := without(i)
		sum, squares = sum+s, squares+s*s
	}
	variance := float64(n-1) / float64(n) * max(0, squares-sum*sum/float64(n))
	reach := stats.InvCDF(stats.TDist{V: float64(n - 1)})(1-tail) * math.Sqrt(variance)
	apart := float64(n) / 2
	low, high := calibration.BinomialInterval(r.Share*apart, apart)
	r.Low, r.High = max(0, min(low, r.Share-reach)), min(1, max(high, r.Share+reach))
	return r
}
