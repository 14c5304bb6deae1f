package present

import (
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/result/format"
	"transportbench/core/transport"
)

// Measurements writes the microbenchmarks of a transport.
func Measurements(w io.Writer, list []transport.Measurement) {
	t := newTable(w, "measurement", "bytes", "median", "rate", "bandwidth", "samples")
	show := func(value float64, unit string) string {
		if value == 0 {
			return "-"
		}
		return format.Number(value, unit)
	}
	for _, m := range list {
		t.AppendRow(table.Row{m.Name, m.Size, show(m.Latency, "ns"), show(m.Rate, "op/s"), show(m.Bandwidth, "B/s"), m.Samples})
	}
	rightAlign(t, 2, 3, 4, 5, 6)
	t.Render()
}
