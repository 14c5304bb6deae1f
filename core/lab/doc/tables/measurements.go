package tables

import (
	"fmt"
	"slices"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
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
	{">witness", "ns", func(m *transport.Measurement) float64 { return m.WitnessLatency }},
	{">witness rate", "op/s", func(m *transport.Measurement) float64 { return m.WitnessRate }},
	{">x witness", "ratio", timesWitness},
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

// Measurements returns the microbenchmarks of a transport, without the columns that no reading has.
// The speed-up is that over the reading's baseline: in the median, or else in the time per
// operation.
func Measurements(list []transport.Measurement) *doc.Doc {
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
			row = append(row, speedUp(list[:i], m), m.Baseline)
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

// speedUp compares a reading with its baseline among the earlier ones.
func speedUp(earlier []transport.Measurement, m *transport.Measurement) string {
	for i := range earlier {
		b := &earlier[i]
		switch {
		case b.Name != m.Baseline || b.Size != m.Size:
		case b.Latency > 0 && m.Latency > 0:
			return fmt.Sprintf("%sx", format.Digits(b.Latency/m.Latency))
		case b.Rate > 0 && m.Rate > 0:
			return fmt.Sprintf("%sx", format.Digits(m.Rate/b.Rate))
		}
	}
	return "-"
}
