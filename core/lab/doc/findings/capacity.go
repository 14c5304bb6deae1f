package findings

import (
	"cmp"
	"fmt"
	"slices"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// capacity writes the curves of a set: a sentence, the points, and
// recommendations.
func capacity(out *doc.Doc, c *analyze.Capacity) {
	for i := range c.Curves {
		if i > 0 {
			out.Gap()
		}
		curve(out, c, &c.Curves[i])
	}
	for _, note := range c.Notes {
		out.Paragraph("omitted: " + note)
	}
	knees := slices.ContainsFunc(c.Curves, func(u analyze.Curve) bool { return u.Knee != nil })
	if knees {
		out.Gap()
		out.Paragraph("knees by " + c.KneeMethod)
	}
}

// objectives writes a row for each curve and objective: the load with the highest throughput of
// those that meet it.
func objectives(out *doc.Doc, list []*analyze.Capacity) {
	t := doc.NewTable("curve", "objective", "load", ">"+list[0].Rate, ">95% interval", ">time",
		">95% interval", "")
	for _, c := range list {
		for i := range c.Curves {
			u := &c.Curves[i]
			if u.Peak == nil {
				t.Row(u.Label, c.Objective.Text, "none", "-", "-", "-", "-", "")
				continue
			}
			p, remark := &u.Points[*u.Peak], ""
			if p.Meets == analyze.MeetsPerhaps {
				remark = "only by the median"
			}
			t.Row(u.Label, c.Objective.Text, p.Load, doc.Median(p.Rate), interval(p.Rate),
				doc.Median(p.Latency), interval(p.Latency), remark)
		}
	}
	out.Add(t)
	for _, note := range list[0].Notes {
		out.Paragraph("omitted: " + note)
	}
}

func curve(out *doc.Doc, c *analyze.Capacity, u *analyze.Curve) {
	loop := "closed loop"
	if u.Open {
		loop = "open loop"
	}
	out.Paragraph("%s (%s): %s", u.Label, loop, u.Message)
	header := []string{"load", ">" + c.Rate, ">95% interval", ">" + u.Metric, ">95% interval"}
	attained := slices.ContainsFunc(u.Points, func(p analyze.Point) bool { return p.Within != nil })
	if c.Objective != nil {
		header = append(header, c.Objective.Text)
	}
	if attained {
		header = append(header, ">within "+format.Time(c.Objective.Limit))
	}
	replayed := slices.ContainsFunc(u.Points, func(p analyze.Point) bool { return p.Worst != nil })
	if replayed {
		header = append(header, ">in the worst part", "part")
	}
	inStates := slices.ContainsFunc(u.Points, func(p analyze.Point) bool { return p.Windows != "" })
	if inStates {
		header = append(header, "windows")
	}
	t := doc.NewTable(append(header, "")...)
	for i := range u.Points {
		p := &u.Points[i]
		row := []any{p.Load, format.Value(p.Rate), interval(p.Rate), format.Value(p.Latency),
			interval(p.Latency)}
		if c.Objective != nil {
			row = append(row, p.Meets)
		}
		switch {
		case p.Within != nil:
			row = append(row, fmt.Sprintf("%.3f%%", 100**p.Within))
		case attained:
			row = append(row, doc.None())
		}
		if replayed {
			row = append(row, worst(p)...)
		}
		if inStates {
			row = append(row, cmp.Or(p.Windows, "-"))
		}
		t.Row(append(row, remarks(p))...)
	}
	out.Add(t)
	operating(out, u)
	servers(out, c, u)
}

// worst returns the share within the objective in the worst part of a replay, and which part that
// is.
func worst(p *analyze.Point) []any {
	w := p.Worst
	if w == nil || w.Within == nil {
		return []any{doc.None(), doc.None()}
	}
	return []any{fmt.Sprintf("%.3f%%", 100**w.Within),
		fmt.Sprintf("%s from %s on", format.Time(w.For), format.Time(w.At))}
}

// operating writes the recommended operating points.
func operating(out *doc.Doc, u *analyze.Curve) {
	if len(u.Operating) == 0 {
		return
	}
	out.Gap()
	t := doc.NewTable("for", "load", ">throughput", ">"+u.Metric, "why").Wrap(16, "why").MaxWidth(
		34, "why")
	for _, o := range u.Operating {
		p := &u.Points[o.Point]
		t.Row(o.Name, p.Load, doc.Median(p.Rate), doc.Median(p.Latency), o.Why)
	}
	out.Add(t)
}

// interval returns a dash without an interval.
func interval(m result.Metric) string {
	if m.Low == nil {
		return "-"
	}
	return format.Interval(m)
}

// remarks returns the reasons not to choose a point.
func remarks(p *analyze.Point) string {
	switch {
	case p.Unusable != "":
		return "a check failed"
	case p.Meets == analyze.MeetsNo && p.Stalled > 0:
		return "stalled " + format.Share(p.Stalled) + ": this tail is the machine's"
	case p.Past:
		return "past the peak"
	case p.AfterMiss && p.Meets != analyze.MeetsNo:
		return "does not count: a lower rate misses"
	}
	return ""
}

func servers(out *doc.Doc, c *analyze.Capacity, u *analyze.Curve) {
	for _, n := range u.Servers {
		interval := ""
		if n.Low != nil {
			interval = fmt.Sprintf(" (%d to %d)", *n.Low, *n.High)
		}
		p := &u.Points[n.Point]
		headroom := ""
		if !u.Open {
			headroom = fmt.Sprintf("; assumed: %.0f%% of a closed loop's throughput stays free",
				100**c.Headroom)
		}
		number := format.Count(n.Servers, "server")
		if p.Sustained > 0 {
			number = "at most " + number
		}
		out.Paragraph("%s at %s: %s%s, each %s with %s%s", format.Number(c.Target, p.Rate.Unit),
			n.Name, number, interval, p.Reached(format.Value(p.Rate)), p.Load, headroom)
	}
}
