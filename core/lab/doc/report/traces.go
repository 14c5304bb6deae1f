package report

import (
	"fmt"
	"math"
	"strings"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// traces shows rates over time, one line per cell, relative to the cell's median or mean. What all
// lines have in common comes from the machine.
type traces struct {
	Title, Help, Along string
	Lines              []traceLine
	More               int
	// Low and High are the ends of the axis.
	Low, High string
}

type traceLine struct {
	Cell, Look int
	Label      string
	Points     string // of a polyline, 0 to 100
}

// linesShown is the largest number of lines.
const linesShown = 300

// allTraces draws the rates over each cell's repeats and within its windows.
func (b *builder) allTraces() []traces {
	repeats := traces{Title: "Over the repeats",
		Help: "throughput of each repeat divided by the cell's median", Along: "repeat"}
	windows := traces{Title: "Within windows", Help: "rate in each part of a window divided by " +
		"that of the window, averaged over the cell's repeats", Along: "part of the window"}
	var overRepeats, inWindows [][]float64
	for i, c := range b.cells {
		overRepeats = append(overRepeats, relative(c.Samples[result.Throughput]))
		inWindows = append(inWindows, meanTrace(b.overviews[i].Rates))
	}
	var list []traces
	for _, t := range []struct {
		traces
		of [][]float64
	}{{repeats, overRepeats}, {windows, inWindows}} {
		if b.draw(&t.traces, t.of); len(t.Lines) > 0 {
			list = append(list, t.traces)
		}
	}
	return list
}

// relative divides values by their median.
func relative(values []float64) []float64 {
	if len(values) < 2 {
		return nil
	}
	median := result.Summarize(result.Throughput, values).Median
	if median <= 0 {
		return nil
	}
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v / median
	}
	return out
}

// meanTrace returns the average over windows of their relative rates.
func meanTrace(windows [][]float64) []float64 {
	var sums []float64
	n := 0.0
	for _, w := range windows {
		total := 0.0
		for _, v := range w {
			total += v
		}
		if sums == nil {
			sums = make([]float64, len(w))
		}
		if total <= 0 || len(w) != len(sums) || len(w) < 2 {
			continue
		}
		n++
		for i, v := range w {
			sums[i] += v / total * float64(len(w))
		}
	}
	if n == 0 {
		return nil
	}
	for i := range sums {
		sums[i] /= n
	}
	return sums
}

// draw draws lines on a logarithmic axis around 1 that fits them, at most from 1/4 to 4.
func (b *builder) draw(t *traces, of [][]float64) {
	reach := math.Log(1.1)
	for _, line := range of {
		for _, v := range line {
			if v > 0 {
				reach = max(reach, math.Abs(math.Log(v)))
			}
		}
	}
	reach = min(reach, math.Log(4))
	t.Low, t.High = format.Digits(math.Exp(-reach)), format.Digits(math.Exp(reach))
	for cell, line := range of {
		if len(line) < 2 {
			continue
		}
		if len(t.Lines) == linesShown {
			t.More++
			continue
		}
		var points strings.Builder
		for i, v := range line {
			y := 50 - 50*max(-1, min(1, math.Log(max(v, 1e-9))/reach))
			fmt.Fprintf(&points, "%.1f,%.1f ", 100*float64(i)/float64(len(line)-1), y)
		}
		t.Lines = append(t.Lines, traceLine{cell, b.look(cell), b.doc.Cells.Label[cell],
			strings.TrimSpace(points.String())})
	}
}
