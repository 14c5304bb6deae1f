package tables

import (
	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

const (
	// minStreamed is the mean size in bytes of values from which a load is a stream of bytes.
	minStreamed = 64 << 10
	// streamed is the amount in bytes whose time is shown, as in the walk-through of TCPX.
	streamed = 64 << 20
)

// stream writes the bandwidth of a load of large values beside that of the bare medium in the same
// run.
func stream(out *doc.Doc, r *result.Result) {
	goodput, throughput, floor := r.Summary[result.Goodput].Median,
		r.Summary[result.Throughput].Median, r.Summary[result.RateFloor].Median
	if throughput == 0 || floor == 0 || goodput/throughput < minStreamed {
		return
	}
	raw := goodput / throughput / floor * 1e9
	out.Paragraph("stream: %s, %s per 64MiB; the raw stream between the windows: %s, so the "+
		"transport reaches %s of it",
		format.Number(goodput, "B/s"), format.Number(streamed/goodput*1e9, "ns"),
		format.Number(raw, "B/s"), format.Number(goodput/raw, "ratio"))
	out.Gap()
}
