package tables

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

func TestSetup(t *testing.T) {
	s := set.New()
	add := func(name string, samples map[string]float64) {
		r := sample(name, "pingpong", 1e6)
		samples[result.LatencyP50] = 313
		r.Repeats = []result.Repeat{{Samples: samples}}
		r.Summary = result.SummarizeRepeats(r.Repeats)
		require.NoError(t, s.Add(r))
	}
	add("copyrpc", map[string]float64{
		result.SetupOpen: 8.8e6, result.SetupRegister: 162e3, result.SetupExchange: 543e3,
		result.SetupConnect: 173e3, result.SetupConnectAll: 270e3,
		result.FirstCall: 279e3, result.Teardown: 1.6e6,
	})
	add("shm", map[string]float64{result.SetupOpen: 8.3e6, result.SetupConnect: 142e3,
		result.SetupConnectAll: 274e3})
	add("old", map[string]float64{})
	var out bytes.Buffer
	write(&out, Setup(s))
	doctest.Golden(t, "setup.txt", out.String())

	out.Reset()
	write(&out, Setup(&set.Set{Cells: s.Cells[2:]}))
	require.Equal(t, "\nno result has what its setup took\n", out.String())
	out.Reset()
	write(&out, Result(func() *result.Result {
		r := sample("shm", "kv", 1e6)
		r.Summary[result.SetupOpen] = metric(result.SetupOpen, 5)
		return r
	}()))
	require.NotContains(t, out.String(), result.SetupOpen,
		"metrics of the setup have a table of their own")
}
