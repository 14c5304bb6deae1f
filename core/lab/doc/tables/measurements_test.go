package tables

import (
	"bytes"
	"testing"

	"transportbench/core/lab/doc/doctest"
	"transportbench/core/transport"
)

func TestMeasurements(t *testing.T) {
	var out bytes.Buffer
	write(&out, Measurements([]transport.Measurement{
		{Name: "write-latency", Size: 32, Latency: 1500, WitnessLatency: 1200, Samples: 100},
		{Name: "write-signal/1", Size: 32, Rate: 4e6, Bandwidth: 128e6, WitnessRate: 5e6,
			Samples: 1000},
		{Name: "write-signal/16", Size: 32, Rate: 8e6, Bandwidth: 256e6, Baseline: "write-signal/1",
			Samples: 1000},
		{Name: "fetch-add-latency", Size: 8, Note: "nic0 has no atomic operations"},
	}))
	doctest.Golden(t, "measurements.txt", out.String())
}
