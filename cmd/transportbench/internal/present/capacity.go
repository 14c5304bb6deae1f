package present

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/analyze"
	"transportbench/core/result/format"
)

// capacity writes the curves of a set: a sentence, the points, and what is
// recommended.
func capacity(w io.Writer, c *analyze.Capacity) {
	for i := range c.Curves {
		if i > 0 {
			fmt.Fprintln(w)
		}
		curve(w, c, &c.Curves[i])
	}
	for _, note := range c.Notes {
		paragraph(w, 0, 2, "left out: "+note)
	}
	knees := slices.ContainsFunc(c.Curves, func(u analyze.Curve) bool { return u.Knee != nil })
	if knees {
		fmt.Fprintln(w)
		paragraph(w, 0, 2, "knees by "+c.KneeMethod)
	}
}

func curve(w io.Writer, c *analyze.Capacity, u *analyze.Curve) {
	loop := "closed loop"
	if u.Open {
		loop = "open loop"
	}
	paragraph(w, 0, 2, fmt.Sprintf("%s (%s): %s", u.Label, loop, u.Message))
	header := []any{u.Axis, c.Rate, "95% interval", u.Metric, "95% interval"}
	if c.Objective != nil {
		header = append(header, c.Objective.Text)
	}
	t := newTable(w, append(header, "")...)
	rightAlign(t, 2, 3, 4, 5)
	for i := range u.Points {
		p := &u.Points[i]
		row := table.Row{p.Load, format.Value(p.Rate), interval(p.Rate.N, format.Interval(p.Rate)), format.Value(p.Latency), interval(p.Latency.N, format.Interval(p.Latency))}
		if c.Objective != nil {
			row = append(row, p.Meets)
		}
		t.AppendRow(append(row, remarks(u, i)))
	}
	t.Render()
	servers(w, c, u)
}

// interval shortens the reason why there is none.
func interval(n int, text string) string {
	if strings.Contains(text, " to ") {
		return text
	}
	return fmt.Sprintf("none (n=%d)", n)
}

// remarks are what a point is: recommended, past the peak, or not to be used.
func remarks(u *analyze.Curve, point int) string {
	var list []string
	if u.Most != nil && *u.Most == point {
		list = append(list, "most under the objective")
	}
	for _, o := range u.Operating {
		if o.Point == point {
			list = append(list, o.Name)
		}
	}
	if u.Points[point].Past {
		list = append(list, "past the peak")
	}
	if u.Points[point].Unusable != "" {
		list = append(list, "not used: a check failed")
	}
	return strings.Join(list, ", ")
}

func servers(w io.Writer, c *analyze.Capacity, u *analyze.Curve) {
	for _, n := range u.Servers {
		interval := ""
		if n.Low != nil {
			interval = fmt.Sprintf(" (%d to %d)", *n.Low, *n.High)
		}
		p := &u.Points[n.Point]
		paragraph(w, 0, 2, fmt.Sprintf("%s at %s: %s%s, each %s with %s", format.Number(c.Target, p.Rate.Unit), n.Name,
			format.Count(n.Servers, "server"), interval, format.Value(p.Rate), p.Load))
	}
}
