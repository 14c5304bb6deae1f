package present

import (
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/transport"
)

// Measurements writes the microbenchmarks of a transport.
func Measurements(w io.Writer, list []transport.Measurement) {
	t := newTable(w, "measurement", "bytes", "median", "rate", "bandwidth", "samples")
	show := func(value float64, scales []scale) string {
		if value == 0 {
			return "-"
		}
		return scaled(value, scales)
	}
	for _, m := range list {
		t.AppendRow(table.Row{m.Name, m.Size, show(m.Latency, timeScales), show(m.Rate, rateScales), show(m.Bandwidth, byteScales), m.Samples})
	}
	rightAlign(t, 2, 3, 4, 5, 6)
	t.Render()
}
