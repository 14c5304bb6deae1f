package tables

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/result"
)

func TestStream(t *testing.T) {
	r := sample("tcpx", "bulk", 10e3)
	of := func(value, goodput, floor float64) string {
		r.Summary[result.Throughput], r.Summary[result.Goodput] = metric(result.Throughput,
			goodput/value), metric(result.Goodput, goodput)
		r.Summary[result.RateFloor] = metric(result.RateFloor, floor)
		var out bytes.Buffer
		d := new(doc.Doc)
		stream(d, r)
		write(&out, d)
		return out.String()
	}
	// 512 KiB in 131.072 us are 4 GB/s.
	require.Equal(t, "stream: 2.00 GB/s, 33.6 ms per 64MiB; the raw stream between the windows: "+
		"4.00 GB/s, so the\n"+
		"  transport reaches 0.500 of it\n\n", of(512<<10, 2e9, 131072))
	require.Empty(t, of(32, 2e9, 131072), "small values")
	delete(r.Summary, result.RateFloor)
	require.Empty(t, of(512<<10, 2e9, 0), "no floor")
}
