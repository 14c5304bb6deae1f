package analyze

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/grouped"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// KneeMethod describes how knees are found.
const KneeMethod = "Kleinrock's power: where throughput over median latency is highest"

// ErrNoCurve is wrapped by the error for a set without load curves.
var ErrNoCurve = errors.New("no cells with throughput and time")

// ErrClosedLoop is wrapped by the error for a target if all curves are closed loops and no headroom
// is given.
var ErrClosedLoop = errors.New("its curves are closed loops, whose clients send less when the " +
	"server is slow, so their throughput is no capacity")

// loadAxes has the options that set the load of closed (false) and open (true) loops.
var loadAxes = map[bool][]string{false: {"ranks", "clients", "in_flight"}, true: {"rate"}}

// replayAxes are those of a replay: the speed, and what follows from it.
var replayAxes = []string{"speed", "rate", "duration"}

// axesOf returns the options that set the load of a cell.
func axesOf(c *set.Cell, open bool) []string {
	if open && c.Config["replay"] != "" {
		return replayAxes
	}
	return loadAxes[open]
}

// CapacityOf combines the cells of a set that differ only in load to curves and evaluates those. It
// fails with [ErrNoCurve] if no cell has the rate and the time.
func CapacityOf(s *set.Set, o CapacityOptions) (*Capacity, error) {
	c := &Capacity{Objective: o.Objective, KneeMethod: KneeMethod, Target: o.Target,
		Headroom: o.Headroom, Rate: cmp.Or(o.Rate, rateMetric(s))}
	var loaded []int
	for i := range s.Cells {
		// a capacity is no load
		if cell := &s.Cells[i]; len(cell.Samples[c.Rate]) > 0 && !cell.FindsCapacity() {
			loaded = append(loaded, i)
		}
	}
	labels := set.LabelsOf(s.Cells)
	for _, cells := range grouped.By(loaded, func(i int) string {
		cell := &s.Cells[i]
		open := cell.OpenLoop()
		return fmt.Sprintf("%t %d %s %s %s\n%s", open, cell.Environment, cell.Plugin.Provider,
			cell.Plugin.RuntimeDigest, source(cell), cell.Key(axesOf(cell, open)...))
	}) {
		curve, err := newCurve(s, cells, labels, s.Cells[cells[0]].OpenLoop(), c)
		if err != nil {
			c.Notes = append(c.Notes, err.Error())
			continue
		}
		c.Curves = append(c.Curves, *curve)
	}
	refused := 0
	for i := range c.Curves {
		if u := &c.Curves[i]; c.Target > 0 && !u.Open && c.Headroom == nil {
			refused++
			c.Notes = append(c.Notes, u.Label+
				": no number of servers, because its loads are closed loops")
		}
	}
	if refused > 0 && refused == len(c.Curves) {
		return nil, ErrClosedLoop
	}
	if len(c.Curves) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoCurve,
			cmp.Or(strings.Join(c.Notes, "; "), "none has "+c.Rate))
	}
	return c, nil
}

// source returns the document of published figures.
func source(c *set.Cell) string {
	if c.Status == set.Published {
		return c.Reason
	}
	return ""
}

// rateMetric returns the metric that counts as throughput.
func rateMetric(s *set.Set) string {
	for _, name := range []string{result.Throughput, result.IterationRate, result.TokenRate} {
		for i := range s.Cells {
			if len(s.Cells[i].Samples[name]) > 0 {
				return name
			}
		}
	}
	return result.Throughput
}

func newCurve(s *set.Set, cells []int, labels set.Labels, open bool, c *Capacity) (*Curve, error) {
	first := &s.Cells[cells[0]]
	u := &Curve{Transport: first.Transport(), Open: open, Config: maps.Clone(first.Config)}
	for _, name := range axesOf(first, open) {
		delete(u.Config, name)
	}
	u.Label = labels.Without(axesOf(first, open)...).Of(first.Config)
	axes := varyingAxes(s, cells, open)
	u.Axis = strings.Join(axes, ", ")
	if u.Metric = timeMetric(s, cells, open, c.Objective); u.Metric == "" {
		wanted := "time"
		if c.Objective != nil {
			wanted = c.Objective.metric(open)
		}
		return nil, fmt.Errorf("%s: no cell has the metric %s", u.Label, wanted)
	}
	for _, i := range cells {
		if p, ok := newPoint(s, i, axes, u.Metric, c); ok {
			u.Points = append(u.Points, p)
		}
	}
	if len(u.Points) == 0 {
		return nil, fmt.Errorf("%s: no cell has both %s and %s", u.Label, c.Rate, u.Metric)
	}
	slices.SortStableFunc(u.Points, func(a, b Point) int {
		return cmp.Compare(loadOf(&s.Cells[a.Cell], open), loadOf(&s.Cells[b.Cell], open))
	})
	u.read(s, c)
	return u, nil
}

// varyingAxes returns the options of load that differ, or all if none does.
func varyingAxes(s *set.Set, cells []int, open bool) []string {
	if first := &s.Cells[cells[0]]; open && first.Config["replay"] != "" {
		return replayAxes[:1]
	}
	var axes []string
	for _, name := range loadAxes[open] {
		if slices.ContainsFunc(cells, func(i int) bool {
			return s.Cells[i].Config[name] != s.Cells[cells[0]].Config[name]
		}) {
			axes = append(axes, name)
		}
	}
	if len(axes) == 0 {
		return loadAxes[open]
	}
	return axes
}

// timeMetric returns the metric of the objective, or without one the first default that cells have.
func timeMetric(s *set.Set, cells []int, open bool, o *Objective) string {
	candidates := []string{result.LatencyP99, "read_p99", result.LatencyP50, "read_p50"}
	if open {
		candidates = []string{result.ResponseP99, result.ResponseP50}
	}
	if o != nil {
		candidates = []string{o.metric(open)}
	}
	for _, name := range candidates {
		if slices.ContainsFunc(cells, func(i int) bool {
			return len(s.Cells[i].Samples[name]) > 0
		}) {
			return name
		}
	}
	return ""
}

// loadOf returns the load of a cell, to sort points by.
func loadOf(c *set.Cell, open bool) float64 {
	if open {
		return c.OfferedRate()
	}
	load := 1.0
	for _, name := range loadAxes[open] {
		if v, err := strconv.ParseFloat(c.Config[name], 64); err == nil {
			load *= v
		}
	}
	return load
}

// newPoint makes a point of a cell; ok is false if the cell does not have the metric.
func newPoint(s *set.Set, i int, axes []string, metric string, c *Capacity) (p Point, ok bool) {
	cell := &s.Cells[i]
	p = Point{Cell: i, Rate: result.Summarize(c.Rate, cell.Samples[c.Rate])}
	if p.Latency, ok = cell.Metric(metric); !ok {
		return p, false
	}
	var loads []string
	if axes[0] == replayAxes[0] && cell.Run != nil {
		loads, axes = []string{"speed=" + format.Digits(cell.Run.Speed.Factor())}, nil
	}
	for _, name := range axes {
		if value, has := cell.Config[name]; has {
			loads = append(loads, name+"="+set.Value(name, value))
		}
	}
	p.Load = strings.Join(loads, " ")
	if c.Rate == result.Throughput && cell.Status == set.Measured &&
		!slices.ContainsFunc(cell.Warnings,
			func(w result.Finding) bool { return w.Name == "rate" }) {
		p.Sustained = cell.OfferedRate()
	}
	// there are no better figures for published ones; their warnings are shown
	if cell.Status == set.Measured {
		p.Unusable = cell.Broken()
	}
	if stalled := cell.Median(result.Stalled); stalled > result.MuchStalled {
		p.Stalled = stalled
	}
	if c.Objective != nil {
		p.Meets = meets(p.Latency, c.Objective.Limit)
		if limit := c.Objective.ResponseLimit(); limit > 0 && cell.OpenLoop() {
			p.attain(s, cell, limit)
		}
	}
	return p, true
}

// attain sets the share of a cell's response times up to a limit, and where it is smallest. It sets
// nothing without the results.
func (p *Point) attain(s *set.Set, cell *set.Cell, limit float64) {
	results, err := s.Results(cell)
	if err != nil || len(results) == 0 {
		return // an index without its results has medians alone
	}
	all := record.NewHistogram()
	for _, r := range results {
		for _, w := range result.ResponsesOf(r.Repeats) {
			if h, err := record.DecodeHistogram(w.Histogram); err == nil {
				all.Merge(h)
			}
		}
	}
	if all.Count() > 0 {
		p.Within = new(all.Within(uint64(limit)))
	}
	if times, err := ReplayTimesOf(results); err == nil && times != nil {
		p.Worst = &times.Under(limit).Worst
	}
}

// The values of Point.Meets.
const (
	MeetsYes     = "yes"
	MeetsPerhaps = "perhaps"
	MeetsNo      = "no"
)

// meets compares the interval's upper end with the limit. Without an interval, MeetsYes is
// impossible.
func meets(m result.Metric, limit float64) string {
	switch {
	case m.High != nil && *m.High < limit:
		return MeetsYes
	case m.Median < limit:
		return MeetsPerhaps
	}
	return MeetsNo
}

// read finds the peak, the knee, the operating points, the best point under the objective, and the
// servers.
func (u *Curve) read(s *set.Set, c *Capacity) {
	best, missed := 0.0, false
	for i := range u.Points {
		p := &u.Points[i]
		p.Past, p.AfterMiss = p.Rate.Median < best, missed
		if p.Unusable == "" {
			best = max(best, p.Rate.Median)
			missed = missed || u.Open && p.Meets == MeetsNo
		}
	}
	u.Knee = u.knee(s)
	u.Operating = u.operating()
	if c.Objective != nil {
		for _, how := range []string{MeetsYes, MeetsPerhaps} {
			if u.Peak == nil {
				u.Peak = u.best(func(p *Point) float64 { return p.Rate.Median },
					func(p *Point) bool { return p.Meets == how && !p.AfterMiss })
			}
		}
	}
	if c.Target > 0 {
		u.Servers = u.servers(c)
	}
	u.Message = u.message(c)
}

// best returns the usable point with the highest score of those that take accepts.
func (u *Curve) best(score func(*Point) float64, take func(*Point) bool) *int {
	var found *int
	for i := range u.Points {
		p := &u.Points[i]
		if p.Unusable == "" && take(p) && (found == nil || score(p) > score(&u.Points[*found])) {
			found = new(i)
		}
	}
	return found
}

func anyPoint(*Point) bool { return true }

// knee returns the point with the highest rate over median time. It needs three usable points,
// because one of two always wins.
func (u *Curve) knee(s *set.Set) *int {
	median := func(p *Point) float64 {
		family, _, _ := strings.Cut(u.Metric, "_p")
		if m, ok := s.Cells[p.Cell].Metric(family + "_p50"); ok {
			return m.Median
		}
		return p.Latency.Median
	}
	usable := 0
	for i := range u.Points {
		if u.Points[i].Unusable == "" {
			usable++
		}
	}
	if usable < 3 {
		return nil
	}
	return u.best(func(p *Point) float64 { return p.Rate.Median / median(p) }, anyPoint)
}

// A point is near the best within 10% of the lowest latency, or within 5% of the highest rate.
const (
	nearLatency = 1.1
	nearRate    = 0.95
)

// operating returns the recommended points.
func (u *Curve) operating() []OperatingPoint {
	rate := func(p *Point) float64 { return p.Rate.Median }
	quick := u.best(func(p *Point) float64 { return -p.Latency.Median }, anyPoint)
	peakPoint := u.best(rate, anyPoint)
	if quick == nil || peakPoint == nil {
		return []OperatingPoint{}
	}
	other := func(p *Point) bool { return p != &u.Points[*peakPoint] }
	if u.best(rate, other) == nil {
		return []OperatingPoint{{"maximum", *peakPoint, "the only load"}}
	}
	fastest, peak := u.Points[*quick].Latency.Median, u.Points[*peakPoint].Rate.Median
	low := u.best(rate, func(p *Point) bool { return p.Latency.Median <= nearLatency*fastest })
	list := []OperatingPoint{{"low latency", *low,
		fmt.Sprintf("the highest throughput with a %s within 10%% of the lowest, %s", u.Metric,
			format.Time(fastest))}}
	if u.Knee != nil {
		list = append(list, OperatingPoint{"balanced", *u.Knee,
			"the knee: the highest throughput for its latency"})
	}
	for i := range u.Points {
		if u.Points[i].Unusable == "" && u.Points[i].Rate.Median >= nearRate*peak {
			list = append(list, OperatingPoint{"high throughput", i,
				"the smallest load within 5% of the highest throughput"})
			break
		}
	}
	return append(list, OperatingPoint{"maximum", *peakPoint, "the highest throughput"})
}

// servers returns the number of servers for the objective, or without one for each operating point.
func (u *Curve) servers(c *Capacity) []ServersNeeded {
	target := c.Target
	switch {
	case !u.Open && c.Headroom == nil, c.Objective != nil && u.Peak == nil:
		return nil
	case !u.Open:
		target /= 1 - *c.Headroom
	}
	if c.Objective != nil {
		return []ServersNeeded{u.need(c.Objective.Text, *u.Peak, target)}
	}
	var list []ServersNeeded
	for _, o := range u.Operating {
		list = append(list, u.need(o.Name, o.Point, target))
	}
	return list
}

// need returns the number of servers for a target in which the headroom is included.
func (u *Curve) need(name string, point int, target float64) ServersNeeded {
	rate, sustained := u.Points[point].Rate, u.Points[point].Sustained
	servers := func(each float64) int { return int(math.Ceil(target / each)) }
	if sustained > 0 {
		return ServersNeeded{Name: name, Point: point, Servers: servers(sustained)}
	}
	n := ServersNeeded{Name: name, Point: point, Servers: servers(rate.Median)}
	if rate.Low != nil && rate.High != nil && *rate.Low > 0 {
		n.Low, n.High = new(servers(*rate.High)), new(servers(*rate.Low))
	}
	return n
}

// Reached describes the rate of the point: the offered one if the point sustained it, else
// measured.
func (p *Point) Reached(measured string) string {
	if p.Sustained > 0 {
		return "at least the offered " + format.Rate(p.Sustained)
	}
	return measured
}

// message describes the curve's main figure in a sentence.
func (u *Curve) message(c *Capacity) string {
	interval := func(m result.Metric) string {
		if m.Low == nil {
			return format.Value(m) + " (" + format.Interval(m) + ")"
		}
		return format.Value(m) + " (95% interval " + format.Interval(m) + ")"
	}
	if c.Objective == nil {
		if len(u.Operating) == 0 {
			return "no point is usable"
		}
		p := u.Points[u.Operating[len(u.Operating)-1].Point]
		return fmt.Sprintf("%s, with %s and a %s of %s", p.Reached("at most "+interval(p.Rate)),
			p.Load, u.Metric, format.Value(p.Latency))
	}
	if u.Peak == nil {
		fastest := u.best(func(p *Point) float64 { return -p.Latency.Median },
			func(p *Point) bool { return !p.AfterMiss })
		if fastest == nil {
			return "no point is usable"
		}
		p := u.Points[*fastest]
		return fmt.Sprintf("no load meets %s: the lowest %s is %s, with %s", c.Objective.Text,
			u.Metric, interval(p.Latency), p.Load)
	}
	p := u.Points[*u.Peak]
	text := fmt.Sprintf("%s under %s, with %s and a %s of %s", p.Reached(interval(p.Rate)),
		c.Objective.Text, p.Load, u.Metric, interval(p.Latency))
	if p.Meets == MeetsPerhaps {
		text += "; only by the median: measure more repeats"
	}
	return text
}
