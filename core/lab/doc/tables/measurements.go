package tables

import (
	"cmp"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// measurementColumn is a quantity of the readings.
type measurementColumn struct {
	header, unit string
	value        func(*transport.Measurement) float64
}

var measurementColumns = []measurementColumn{
	{">median", "ns", func(m *transport.Measurement) float64 { return m.Latency }},
	{">p99", "ns", func(m *transport.Measurement) float64 { return m.LatencyP99 }},
	{">rate", "op/s", func(m *transport.Measurement) float64 { return m.Rate }},
	{">time", "ns/op", timePerOp},
	{">bandwidth", "B/s", func(m *transport.Measurement) float64 { return m.Bandwidth }},
	{">floor", "ns", func(m *transport.Measurement) float64 { return m.Floor }},
	{">rate floor", "ns/op", func(m *transport.Measurement) float64 { return m.RateFloor }},
	{">reference tool", "ns", func(m *transport.Measurement) float64 { return m.WitnessLatency }},
	{">reference rate", "op/s", func(m *transport.Measurement) float64 { return m.WitnessRate }},
	{">x reference tool", "ratio", timesWitness},
	{">IPC", "ratio", counterRatio("counters.ipc")},
	{">cache misses", "ratio", counterRatio("counters.cache_miss")},
	{">L1 misses", "ratio", counterRatio("counters.l1_miss")},
	{">LLC misses", "ratio", counterRatio("counters.llc_miss")},
}

func counterRatio(name string) func(*transport.Measurement) float64 {
	return func(m *transport.Measurement) float64 {
		value, _ := result.CounterRatios[name].In(m.Counters)
		return value
	}
}

func timePerOp(m *transport.Measurement) float64 {
	if m.Rate == 0 {
		return 0
	}
	return 1e9 / m.Rate
}

// timesWitness returns how many times a reading took what its witness took.
func timesWitness(m *transport.Measurement) float64 {
	switch {
	case m.WitnessLatency > 0:
		return m.Latency / m.WitnessLatency
	case m.WitnessRate > 0 && m.Rate > 0:
		return m.WitnessRate / m.Rate
	}
	return 0
}

// maxMeasurements is how many readings a summary lists. Of more it has their groups.
const maxMeasurements = 40

// Measurements returns the microbenchmarks of a transport. Of many it has the groups, and all in a
// fold.
func Measurements(list []transport.Measurement) *doc.Doc {
	all := measurements(list)
	if len(list) <= maxMeasurements {
		return all
	}
	out := new(doc.Doc)
	out.Add(measurementGroups(list))
	out.Fold(format.Count(len(list), "measurement"), all)
	return out
}

// measurementGroups has a row for the readings whose names have their first two parts in common.
func measurementGroups(list []transport.Measurement) *doc.Table {
	type group struct {
		n                              int
		bytes                          [2]int
		latency, rate, bandwidth, gain span
	}
	var order []string
	groups := map[string]*group{}
	for i := range list {
		m := &list[i]
		parts := strings.SplitN(m.Name, "/", 3)
		name := strings.Join(parts[:min(len(parts), 2)], "/")
		g := groups[name]
		if g == nil {
			g = &group{bytes: [2]int{m.Size, m.Size}}
			order, groups[name] = append(order, name), g
		}
		g.n++
		g.bytes = [2]int{min(g.bytes[0], m.Size), max(g.bytes[1], m.Size)}
		g.latency.add(m.Latency)
		g.rate.add(m.Rate)
		g.bandwidth.add(m.Bandwidth)
		g.gain.add(gain(list[:i], m))
	}
	t := doc.NewTable("measurements", ">number", ">bytes", ">median", ">rate", ">bandwidth",
		">speed-up")
	for _, name := range order {
		g := groups[name]
		sizes := transport.FormatSize(int64(g.bytes[0]))
		if g.bytes[0] != g.bytes[1] {
			sizes += " to " + transport.FormatSize(int64(g.bytes[1]))
		}
		t.Row(name, g.n, sizes, g.latency.text("ns"), g.rate.text("op/s"), g.bandwidth.text("B/s"),
			g.gain.text("ratio"))
	}
	return t
}

// span has the lowest and the highest of some values, without those that are 0.
type span struct{ low, high float64 }

func (s *span) add(value float64) {
	if value == 0 {
		return
	}
	s.low, s.high = min(cmp.Or(s.low, value), value), max(s.high, value)
}

func (s *span) text(unit string) string {
	switch {
	case s.high == 0:
		return "-"
	case s.low == s.high:
		return format.Number(s.low, unit)
	}
	return format.Number(s.low, unit) + " to " + format.Number(s.high, unit)
}

// measurements returns a row for each reading, without the columns that none has. The speed-up is
// that over the reading's baseline: in the median, or else in the time per operation.
func measurements(list []transport.Measurement) *doc.Doc {
	out := new(doc.Doc)
	has := func(value func(*transport.Measurement) float64) bool {
		return slices.ContainsFunc(list,
			func(m transport.Measurement) bool { return value(&m) != 0 })
	}
	headers := []string{"measurement", ">bytes"}
	var columns []measurementColumn
	for _, c := range measurementColumns {
		if has(c.value) {
			headers, columns = append(headers, c.header), append(columns, c)
		}
	}
	compared := slices.ContainsFunc(list,
		func(m transport.Measurement) bool { return m.Baseline != "" })
	if compared {
		headers = append(headers, ">speed-up", "over")
	}
	t := doc.NewTable(append(headers, ">samples")...)
	for i := range list {
		m := &list[i]
		row := []any{m.Name, m.Size}
		for _, c := range columns {
			cell := doc.None()
			if value := c.value(m); value != 0 {
				cell = doc.Number(value, c.unit)
			}
			row = append(row, cell)
		}
		if compared {
			cell := doc.None()
			if g := gain(list[:i], m); g != 0 {
				cell.Type, cell.Text, cell.Value = doc.Quantity, format.Digits(g)+"x", g
			}
			row = append(row, cell, m.Baseline)
		}
		t.Row(append(row, m.Samples)...)
	}
	out.Add(t)
	for _, m := range list {
		if m.Note != "" {
			out.Line("%s: %s", m.Name, m.Note)
		}
	}
	return out
}

// gain returns how many times as fast a reading is as its baseline among the earlier ones, or 0
// without one.
func gain(earlier []transport.Measurement, m *transport.Measurement) float64 {
	for i := range earlier {
		b := &earlier[i]
		switch {
		case b.Name != m.Baseline || b.Size != m.Size:
		case b.Latency > 0 && m.Latency > 0:
			return b.Latency / m.Latency
		case b.Rate > 0 && m.Rate > 0:
			return m.Rate / b.Rate
		}
	}
	return 0
}
