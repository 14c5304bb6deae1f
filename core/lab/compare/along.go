package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

// Ranking is a comparison of the values of one option within one set.
type Ranking struct {
	Kind   string  `json:"kind"` // "ranking"
	Source string  `json:"source"`
	Axis   string  `json:"axis"`
	Alpha  float64 `json:"alpha"`
	Floor  float64 `json:"floor"`
	Tests  int     `json:"tests"`
	// Across are the differences of identity that were allowed.
	Across []Difference `json:"across,omitempty"`
	Races  []Race       `json:"races"`
	// Wins has for each metric and value in how many races it won.
	Wins []Win `json:"wins"`
}

// Race is one metric in cells that differ in the axis alone.
type Race struct {
	Cell   string        `json:"cell"` // what they have in common, for people
	Metric string        `json:"metric"`
	Unit   string        `json:"unit"`
	Better result.Better `json:"better"`
	// Runners are the values of the axis, the best median first.
	Runners []Runner `json:"runners"`
	// Winner is the first one where it is significantly better than the second,
	// by more than the floor; empty is undecided.
	Winner string `json:"winner"`
	// TooLittle says that so few repeats could not have made a winner.
	TooLittle bool `json:"too_little,omitempty"`
}

// Runner is one value of the axis.
type Runner struct {
	Value  string        `json:"value"`
	Metric result.Metric `json:"metric"`
	// Behind is how the best relates to this one, as a change; absent for the
	// best itself. Low and High are its 95% interval.
	Behind *float64 `json:"behind,omitempty"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	PHolm  *float64 `json:"p_holm,omitempty"`
	p      *float64
	// Verdict is that of the best against this one: BETTER, SAME or AMBIGUOUS.
	Verdict Verdict `json:"verdict,omitempty"`
}

// Win counts the races that a value won.
type Win struct {
	Metric string `json:"metric"`
	Value  string `json:"value"`
	Wins   int    `json:"wins"`
	Races  int    `json:"races"` // in which it took part
}

// Along compares the values of an option where all else is the same: the
// transport (its own options aside) or any option of the configuration, named
// as in the result or as the flag. Providers differ from transport to
// transport, which is what is compared; machines and runtimes may not, unless
// among o.Across.
func Along(s *set.Set, axis string, o Options) (*Ranking, error) {
	axis, err := axisName(s, axis)
	if err != nil {
		return nil, err
	}
	cells := slices.Collect(usable(s))
	if len(cells) == 0 {
		return nil, &UnmatchedError{Old: len(s.Cells), New: len(s.Cells)}
	}
	r := &Ranking{Kind: "ranking", Source: s.Source, Axis: axis, Alpha: o.Alpha, Floor: o.Floor, Races: []Race{}, Wins: []Win{}}
	if r.Across, err = oneMachine(s, cells, o.Across); err != nil {
		return nil, err
	}
	drop := dropped(s, axis)
	groups := map[string][]*set.Cell{}
	var order []string
	for _, c := range cells {
		key := c.Key(drop...)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], c)
	}
	for _, key := range order {
		for _, metric := range o.Metrics {
			if race, ok := newRace(groups[key], axis, metric, drop, s, o); ok {
				r.Races = append(r.Races, race)
			}
		}
	}
	if len(r.Races) == 0 {
		return nil, &UnmatchedError{Old: len(s.Cells), New: len(s.Cells)}
	}
	r.judge(o)
	return r, nil
}

func usable(s *set.Set) func(func(*set.Cell) bool) {
	return func(yield func(*set.Cell) bool) {
		for i := range s.Cells {
			c := &s.Cells[i]
			if c.Status == set.Measured && lacking(c) == "" && !yield(c) {
				return
			}
		}
	}
}

func axisName(s *set.Set, axis string) (string, error) {
	names := set.Names(s.Cells)
	for _, candidate := range []string{axis, strings.ReplaceAll(axis, "-", "_"), "options." + axis} {
		if slices.Contains(names, candidate) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("no cell has the option %q; they have %s", axis, strings.Join(names, ", "))
}

// oneMachine refuses a comparison of cells from several machines or runtimes.
func oneMachine(s *set.Set, cells []*set.Cell, across []string) ([]Difference, error) {
	var pairs []pair
	for _, c := range cells[1:] {
		pairs = append(pairs, pair{cells[0], c})
	}
	differences := slices.DeleteFunc(identityDifferences(s, s, pairs), func(d Difference) bool { return d.Key == "provider" })
	forbidden := slices.DeleteFunc(slices.Clone(differences), func(d Difference) bool {
		return slices.Contains(across, d.Key) || slices.Contains(across, "all")
	})
	if len(forbidden) > 0 {
		return nil, &IdentityError{forbidden}
	}
	return differences, nil
}

// dropped are the options that do not tell groups apart: the axis, and where it
// is the transport, the transports' own.
func dropped(s *set.Set, axis string) []string {
	drop := []string{axis}
	if axis == "transport" {
		for _, name := range set.Names(s.Cells) {
			if strings.HasPrefix(name, "options.") {
				drop = append(drop, name)
			}
		}
	}
	return drop
}

func newRace(cells []*set.Cell, axis, metric string, drop []string, s *set.Set, o Options) (Race, bool) {
	cells = slices.DeleteFunc(slices.Clone(cells), func(c *set.Cell) bool {
		values := c.Samples[metric]
		return len(values) == 0 || slices.Min(values) <= 0
	})
	d := result.Define(metric)
	if len(cells) < 2 || d.Better == result.None {
		return Race{}, false
	}
	varying := slices.DeleteFunc(set.Varying(s.Cells), func(name string) bool { return slices.Contains(drop, name) })
	race := Race{Cell: commonLabel(cells[0], axis, varying), Metric: metric, Unit: d.Unit, Better: d.Better}
	slices.SortStableFunc(cells, func(a, b *set.Cell) int {
		x, y := result.Summarize(metric, a.Samples[metric]).Median, result.Summarize(metric, b.Samples[metric]).Median
		if d.Better == result.Higher {
			x, y = y, x
		}
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	best := sorted(cells[0].Samples[metric])
	names := runnerNames(cells, axis)
	for i, c := range cells {
		runner := Runner{Value: names[i], Metric: result.Summarize(metric, c.Samples[metric])}
		if i > 0 {
			own := sorted(c.Samples[metric])
			ratio, low, high := shift(own, best, o.Alpha)
			runner.Behind, runner.p = new(ratio-1), new(rankTest(own, best))
			if low > 0 {
				runner.Low, runner.High = new(low-1), new(high-1)
			}
		}
		race.Runners = append(race.Runners, runner)
	}
	return race, true
}

func commonLabel(c *set.Cell, axis string, varying []string) string {
	label := c.Label(varying)
	if axis == "transport" {
		label = strings.TrimPrefix(strings.TrimPrefix(label, c.Transport()), " ")
	}
	if label == "" {
		return "all"
	}
	return label
}

// runnerNames tells cells of one value apart by what else varies among them.
func runnerNames(cells []*set.Cell, axis string) []string {
	names := make([]string, len(cells))
	count := map[string]int{}
	for i, c := range cells {
		names[i] = set.Value(axis, c.Config[axis])
		count[names[i]]++
	}
	for i, c := range cells {
		if count[names[i]] < 2 {
			continue
		}
		var same []set.Cell
		for _, other := range cells {
			if other.Config[axis] == c.Config[axis] {
				same = append(same, *other)
			}
		}
		label := c.Label(set.Varying(same))
		names[i] += strings.TrimPrefix(label, c.Transport())
	}
	return names
}

// judge adjusts the tests of all races and names the winners.
func (r *Ranking) judge(o Options) {
	var runners []*Runner
	var p []float64
	for i := range r.Races {
		for j := range r.Races[i].Runners {
			if runner := &r.Races[i].Runners[j]; runner.p != nil {
				runners, p = append(runners, runner), append(p, *runner.p)
			}
		}
	}
	r.Tests = len(p)
	for i, adjusted := range holm(p) {
		runners[i].PHolm = new(adjusted)
	}
	for i := range r.Races {
		race := &r.Races[i]
		for j := range race.Runners[1:] {
			runner := &race.Runners[j+1]
			c := Change{Better: race.Better, Change: runner.Behind, Low: runner.Low, High: runner.High,
				P: runner.p, PHolm: runner.PHolm, Old: &runner.Metric, New: &race.Runners[0].Metric}
			runner.Verdict = verdict(&c, o)
			if j == 0 {
				race.TooLittle = runner.Verdict == Ambiguous && tooLittle(&c, o.Alpha, r.Tests)
			}
		}
		if race.Runners[1].Verdict == Better {
			race.Winner = race.Runners[0].Value
		}
	}
	r.Wins = r.count()
}

func (r *Ranking) count() []Win {
	wins := map[string]map[string]*Win{}
	for _, race := range r.Races {
		if wins[race.Metric] == nil {
			wins[race.Metric] = map[string]*Win{}
		}
		for _, runner := range race.Runners {
			w := wins[race.Metric][runner.Value]
			if w == nil {
				w = &Win{Metric: race.Metric, Value: runner.Value}
				wins[race.Metric][runner.Value] = w
			}
			w.Races++
			if runner.Value == race.Winner {
				w.Wins++
			}
		}
	}
	list := []Win{}
	for _, metric := range slices.Sorted(maps.Keys(wins)) {
		values := slices.SortedFunc(maps.Values(wins[metric]), func(a, b *Win) int {
			if a.Wins != b.Wins {
				return b.Wins - a.Wins
			}
			return set.CompareValues(a.Value, b.Value)
		})
		for _, w := range values {
			list = append(list, *w)
		}
	}
	return list
}
