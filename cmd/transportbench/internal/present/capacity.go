package present

import (
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// capacity writes the curves of a set: a sentence, the points, and
// recommendations.
func capacity(w io.Writer, c *analyze.Capacity) {
	for i := range c.Curves {
		if i > 0 {
			fmt.Fprintln(w)
		}
		curve(w, c, &c.Curves[i])
	}
	for _, note := range c.Notes {
		paragraph(w, 0, 2, "omitted: "+note)
	}
	knees := slices.ContainsFunc(c.Curves, func(u analyze.Curve) bool { return u.Knee != nil })
	if knees {
		fmt.Fprintln(w)
		paragraph(w, 0, 2, "knees by "+c.KneeMethod)
	}
}

// objectives writes a row for each curve and objective: the load with the highest throughput of those
// that meet it.
func objectives(w io.Writer, list []*analyze.Capacity) {
	t := newTable(w, "curve", "objective", "load", ">"+list[0].Rate, ">95% interval", ">time", ">95% interval", "")
	for _, c := range list {
		for i := range c.Curves {
			u := &c.Curves[i]
			if u.Most == nil {
				t.AppendRow(table.Row{u.Label, c.Objective.Text, "none", "-", "-", "-", "-", ""})
				continue
			}
			p, remark := &u.Points[*u.Most], ""
			if p.Meets == analyze.MeetsPerhaps {
				remark = "only by the median"
			}
			t.AppendRow(table.Row{u.Label, c.Objective.Text, p.Load, format.Value(p.Rate), interval(p.Rate), format.Value(p.Latency), interval(p.Latency), remark})
		}
	}
	t.Render()
	for _, note := range list[0].Notes {
		paragraph(w, 0, 2, "omitted: "+note)
	}
}

func curve(w io.Writer, c *analyze.Capacity, u *analyze.Curve) {
	loop := "closed loop"
	if u.Open {
		loop = "open loop"
	}
	paragraph(w, 0, 2, fmt.Sprintf("%s (%s): %s", u.Label, loop, u.Message))
	header := []string{"load", ">" + c.Rate, ">95% interval", ">" + u.Metric, ">95% interval"}
	if c.Objective != nil {
		header = append(header, c.Objective.Text)
	}
	t := newTable(w, append(header, "")...)
	for i := range u.Points {
		p := &u.Points[i]
		row := table.Row{p.Load, format.Value(p.Rate), interval(p.Rate), format.Value(p.Latency), interval(p.Latency)}
		if c.Objective != nil {
			row = append(row, p.Meets)
		}
		t.AppendRow(append(row, remarks(p)))
	}
	t.Render()
	operating(w, u)
	servers(w, c, u)
}

// operating writes the recommended operating points.
func operating(w io.Writer, u *analyze.Curve) {
	if len(u.Operating) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable(w, "for", "load", ">throughput", ">"+u.Metric, "why").wrap(16, "why")
	for _, o := range u.Operating {
		p := &u.Points[o.Point]
		t.AppendRow(table.Row{o.Name, p.Load, format.Value(p.Rate), format.Value(p.Latency), text.WrapSoft(o.Why, 34)})
	}
	t.Render()
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
	case p.Past:
		return "past the peak"
	}
	return ""
}

func servers(w io.Writer, c *analyze.Capacity, u *analyze.Curve) {
	for _, n := range u.Servers {
		interval := ""
		if n.Low != nil {
			interval = fmt.Sprintf(" (%d to %d)", *n.Low, *n.High)
		}
		p := &u.Points[n.Point]
		headroom := ""
		if !u.Open {
			headroom = fmt.Sprintf("; assumed: %.0f%% of a closed loop's throughput stays free", 100**c.Headroom)
		}
		paragraph(w, 0, 2, fmt.Sprintf("%s at %s: %s%s, each %s with %s%s", format.Number(c.Target, p.Rate.Unit), n.Name,
			format.Count(n.Servers, "server"), interval, format.Value(p.Rate), p.Load, headroom))
	}
}
