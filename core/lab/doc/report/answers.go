package report

import (
	"cmp"
	"regexp"
	"slices"

	"transportbench/core/base/printable"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// ranking has the transports of one set in the order of a metric, for each load.
type ranking struct {
	Set    int    `json:"set"`
	Metric string `json:"metric"`
	// Lead is the least lead that counts, and where it is from.
	Lead  string       `json:"lead"`
	Loads []rankedLoad `json:"loads"`
}

// rankedLoad has the cells of one load, the best first.
type rankedLoad struct {
	Load string `json:"load"`
	// Of is what the limits of its cells are of.
	Of    string       `json:"of"`
	Cells []rankedCell `json:"cells"`
}

// rankedCell has the letters of a cell: cells with one in common cannot be told apart.
type rankedCell struct {
	Cell  int    `json:"cell"`
	Group string `json:"group"`
	// Again is set if the cell is in another load before: it was measured once for both.
	Again bool `json:"again,omitempty"`
}

// calibrationPath matches a calibration with its path.
var calibrationPath = regexp.MustCompile(` \(calibration of ([0-9-]+)[^)]*\)`)

// rankings compares the transports within each set, as diff --along transport does. A set that it
// refuses, such as one with a single transport, has a note instead.
func (b *builder) rankings() {
	b.doc.Rankings = []ranking{}
	for i := range b.sets {
		var refused error
		ranked := false
		for _, cpu := range append(b.machinesOf(i), "") {
			p := b.partOf(i, func(c string) bool { return c == cpu })
			if len(p.Cells) == 0 {
				continue
			}
			err := b.rankPart(i, p)
			refused, ranked = cmp.Or(refused, err), ranked || err == nil
		}
		if !ranked && refused != nil {
			b.doc.Unranked = append(b.doc.Unranked, b.doc.Sets[i].Name+": "+
				printable.Text(refused.Error()))
		}
	}
}

// rankPart adds the rankings of one machine's cells of a set.
func (b *builder) rankPart(i int, p part) error {
	r, err := calibration.Along(b.calibrationsOf(p.Set), p.Set, "transport", b.Compare)
	if err != nil {
		return err
	}
	lead := format.Share(r.Floor) + ", " +
		calibrationPath.ReplaceAllString(r.FloorFrom, " (calibration of $1)")
	numbers := map[string]int{}
	for _, drop := range [][]string{{"track"}, nil} {
		for c := range p.Cells {
			numbers[p.Cells[c].Key(drop...)] = p.numbers[c]
		}
	}
	for g := range r.Groups {
		b.rank(i, lead, &r.Groups[g], numbers)
	}
	return nil
}

// rank adds one load to the ranking by its metric. numbers has the numbers of the set's cells by
// key.
func (b *builder) rank(at int, lead string, group *compare.Candidates, numbers map[string]int) {
	if group.Metric == result.Throughput && group.Cells()[0].OpenLoop() {
		return // the schedule sets it
	}
	load := rankedLoad{Load: group.Cell}
	for i, c := range group.Cells() {
		cell, known := numbers[c.Key()]
		if !known {
			cell = numbers[c.Key("track")]
		}
		load.Cells = append(load.Cells, rankedCell{Cell: cell, Group: group.List[i].Group})
		if ratio, of := b.floorOf(cell); ratio != nil && load.Of == "" {
			load.Of = of
		}
	}
	k := slices.IndexFunc(b.doc.Rankings, func(r ranking) bool {
		return r.Set == at &&
			r.Metric == group.Metric
	})
	if k < 0 {
		k = len(b.doc.Rankings)
		b.doc.Rankings = append(b.doc.Rankings, ranking{Set: at, Metric: group.Metric, Lead: lead})
	}
	for i := range load.Cells {
		for _, other := range b.doc.Rankings[k].Loads {
			load.Cells[i].Again = load.Cells[i].Again || slices.ContainsFunc(other.Cells,
				func(c rankedCell) bool { return c.Cell == load.Cells[i].Cell })
		}
	}
	b.doc.Rankings[k].Loads = append(b.doc.Rankings[k].Loads, load)
}

// stateNames returns the name of the state of the machine in each window that has the metric, or
// nil if the cell saw one state only.
func stateNames(c *set.Cell, metric string, states state.Classifier) []string {
	windows := c.WindowsOf(metric)
	if states.Divide(windows) == nil {
		return nil
	}
	names := make([]string, len(windows))
	for i, w := range windows {
		names[i] = states.Of(w)
	}
	return names
}
