package result

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// sample returns a small result in which no part is empty.
func sample(t require.TestingT) *Result {
	h := record.NewHistogram()
	h.Record(150)
	histogram := h.Encode()

	cfg := config.Default()
	cfg.Seed = 1<<64 - 1 // more than a float64 holds
	repeats := make([]Repeat, 6)
	for i := range repeats {
		repeats[i] = Repeat{
			Index: i, StartedAt: time.Unix(1_700_000_000, 0),
			Samples: map[string]float64{Throughput: 1e6 + float64(i), Floor: 120},
			Latency: histogram, ReadLatency: histogram, WriteLatency: histogram,
			Ranks: []record.Report{
				{Rank: 0, Daemons: []record.DaemonReport{{Requests: 9}}},
				{Rank: 1, Clients: []record.ClientReport{
					{Reads: 9, Failures: map[string]uint64{"version": 1}}}},
			},
			Before: Readings{Medium: &transport.Floor{Name: "cache-line bounce", RoundTrip: 120,
				Samples: 1000}},
		}
	}
	return &Result{
		SchemaVersion: SchemaVersion, Kind: KindRun, ID: NewID(),
		StartedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("east", 3600)),
		Argv:      []string{"transportbench", "run"},
		Tool:      Tool{Version: "0.1.0", Revision: "abc", Go: "go1.26"},
		Plugin: Plugin{Name: "shm", Provider: "memfd",
			Libraries: map[string]string{"libx": "1"}},
		Config: cfg,
		Environment: machine.Environment{Identity: machine.Identity{
			CPU: "some", RDMA: []machine.RDMADevice{{Name: "mlx5_0"}},
		}},
		Placement: []Placement{{Rank: 0, CPUs: []int{0}, Affinity: []string{"0"}, Idle: "spin"},
			{Rank: 1}},
		Setup:   Setup{Steps: []Step{{"launch", 8.5}}, FirstWindowMS: 90},
		Repeats: repeats,
		Summary: SummarizeRepeats(repeats),
		Checks:  []Finding{{Name: "verified", OK: true, Severity: Error, Message: "all good"}},
	}
}

func encoded(t require.TestingT, r *Result) []byte {
	var b bytes.Buffer
	require.NoError(t, Encode(&b, r))
	return b.Bytes()
}

// edited returns the document of sample after edit.
func edited(t *testing.T, edit func(doc map[string]any)) []byte {
	t.Helper()
	var doc map[string]any
	decoder := json.NewDecoder(bytes.NewReader(encoded(t, sample(t))))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&doc))
	edit(doc)
	text, err := json.Marshal(doc)
	require.NoError(t, err)
	return text
}

func TestEmptyResultIsValidOnceIdentified(t *testing.T) {
	// Nil lists and maps must not become null.
	r := &Result{SchemaVersion: SchemaVersion, Kind: KindRun, ID: NewID(),
		Repeats: make([]Repeat, 1)}
	schemaFile.Follows(t, encoded(t, r))
}

func TestSummarize(t *testing.T) {
	m := Summarize(Throughput, []float64{6, 1, 5, 2, 4, 3})
	require.Equal(t, "op/s", m.Unit)
	require.Equal(t, Higher, m.Better)
	require.Equal(t, 3.5, m.Median)
	require.Equal(t, 6, m.N)
	// With six samples the 95% interval is all of them: 1 - 2/2^6 = 97%.
	require.Equal(t, 1.0, *m.Low)
	require.Equal(t, 6.0, *m.High)

	few := Summarize("of_a_plugin", []float64{5, 1, 2, 4, 3})
	require.Equal(t, 3.0, few.Median)
	require.Nil(t, few.Low)
	require.Nil(t, few.High)
	require.Equal(t, None, few.Better)

	one := Summarize(Floor, []float64{7})
	require.Equal(t, Metric{Unit: "ns", Better: None, Median: 7, N: 1}, one)
	require.Panics(t, func() { Summarize(Floor, nil) })
}

func TestSummarizeLeavesSamplesAlone(t *testing.T) {
	values := []float64{3, 1, 2}
	Summarize(Floor, values)
	require.Equal(t, []float64{3, 1, 2}, values)
}

func TestSummarizeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e12), 1, 40).Draw(t, "values")
		m := Summarize(LatencyP50, values)
		require.Equal(t, len(values), m.N)
		require.Equal(t, len(values) >= 6, m.Low != nil)
		require.Equal(t, len(values) >= 6, m.High != nil)
		if m.Low != nil {
			require.LessOrEqual(t, *m.Low, m.Median)
			require.GreaterOrEqual(t, *m.High, m.Median)
		}
	})
}

func TestSummarizeRepeatsCountsOnlySampled(t *testing.T) {
	summary := SummarizeRepeats([]Repeat{
		{Samples: map[string]float64{Throughput: 10, Floor: 100}},
		{Samples: map[string]float64{Throughput: 20}},
	})
	require.Len(t, summary, 2)
	require.Equal(t, 15.0, summary[Throughput].Median)
	require.Equal(t, 2, summary[Throughput].N)
	require.Equal(t, 1, summary[Floor].N)
}

func TestHistogramsMergeRatherThanAverage(t *testing.T) {
	encode := func(value uint64, times int) string {
		h := record.NewHistogram()
		for range times {
			h.Record(value)
		}
		text := h.Encode()
		return text
	}
	merged, err := Histograms(encode(100, 98), "", encode(900, 2))
	require.NoError(t, err)
	require.EqualValues(t, 100, merged.Count())
	require.EqualValues(t, 100, merged.Quantile(0.5))
	require.EqualValues(t, 900, merged.Quantile(0.99))

	_, err = Histograms(encode(1, 1), "AAAA")
	require.Error(t, err)
}

func TestFailed(t *testing.T) {
	r := &Result{Checks: []Finding{{OK: false, Severity: Warning}, {OK: true, Severity: Error}}}
	require.False(t, r.Failed())
	r.Checks = append(r.Checks, Finding{OK: false, Severity: Error})
	require.True(t, r.Failed())
}

func TestIDs(t *testing.T) {
	a, b := NewID(), NewID()
	require.Len(t, a, 32)
	require.NotEqual(t, a, b)
	require.Equal(t, a[:8], ShortID(a))
	require.Equal(t, "abc", ShortID("abc"))
}

// What impairs packets is a part of the path, so results with different mechanisms do not compare
// in silence.
func TestPathWithNetwork(t *testing.T) {
	r := &Result{
		Setup: Setup{Ranks: []record.RankSetup{
			{Paths: []transport.Path{{Carrier: "tcp", Interface: "wire"}}}}}}
	require.Equal(t, []string{"tcp over wire"}, Path(r))
	r.ImpairedBy = Netem
	require.Equal(t, []string{"tcp over wire", "impaired by netem"}, Path(r))
}
