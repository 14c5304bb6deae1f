package report

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// fastest has the point of a curve for the first part.
type fastest struct {
	Cell, Look     int
	Name, Set      string
	Rate, Interval string
	Facts          []fact
	Load           string
	Verdict        analyze.Verdict
	Outcome        doc.Cell
}

// fact is what a row says besides its rate.
type fact struct{ Name, Text string }

// rows draws the points that may stand in the first part: that of the highest throughput, and those
// that take its place when a reader hides it.
func (b *builder) rows() error {
	for i := range b.doc.Curves {
		c := &b.doc.Curves[i]
		if c.Peak < 0 {
			continue
		}
		peak := slices.IndexFunc(c.Points, func(p point) bool { return p.Cell == c.Peak })
		for k := range c.Points {
			p := &c.Points[k]
			if p.Unusable != "" || p.AfterMiss || p.Meets != c.Points[peak].Meets ||
				b.summary(p.Cell, result.Throughput) == nil {
				continue
			}
			var text bytes.Buffer
			err := loadStatic().body.ExecuteTemplate(&text, "fastest", b.fastestOf(c, p.Cell))
			if err != nil {
				return err
			}
			p.Row = text.String()
		}
	}
	return nil
}

func (b *builder) fastestOf(c *curve, cell int) fastest {
	cells := &b.doc.Cells
	value := func(name string) string {
		if m := b.summary(cell, name); m != nil {
			return format.Value(*m)
		}
		return ""
	}
	rate := *b.summary(cell, result.Throughput)
	made := fastest{
		Cell: cell, Look: b.doc.Series[c.Series].Look, Name: b.doc.Series[c.Series].Name,
		Rate: format.Value(rate), Interval: format.Interval(rate),
		Outcome: b.checksEntry(cell),
	}
	if a := b.overviews[cell].Analysis; a != nil {
		made.Verdict = a.Verdict
	}
	if len(b.sets) > 1 {
		made.Set = b.names[c.Set]
	}
	if rate.Low != nil && rate.N > 1 {
		_, unit, _ := strings.Cut(made.Rate, " ")
		made.Interval += " " + unit
	}
	if windows := cells.Windows[cell]; windows != "" {
		made.Interval += " in " + windows + " windows"
	}
	fact := func(name, before, text, after string) {
		if text != "" {
			made.Facts = append(made.Facts, fact{name, before + text + after})
		}
	}
	if c.Open {
		times := "p50 " + cmp.Or(value(result.ResponseP50), "-") +
			", p99 " + cmp.Or(value(result.ResponseP99), "-")
		if far := value(result.ResponseP999); far != "" {
			times += ", p99.9 " + far
		}
		fact("response", "", times, "")
	} else {
		fact("service", "p50 ", cmp.Or(value(result.LatencyP50), "-"), "")
	}
	if time := value(result.FloorRatio); time != "" {
		fact("floor", "p50 is ", time, " x")
	} else {
		fact("floor", "an op takes ", value(result.OpTimeRatio), " x")
	}
	fact("library", "p50 is ", value(result.LibraryRatio), " x")
	fact("alone", "p50 is ", value(result.BareRatio), " x the transport alone")
	fact("states", "", cells.States[cell], "")
	_, load, _ := strings.Cut(cells.Label[cell], " ")
	made.Load = cmp.Or(load, "the only one")
	return made
}
