package result

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
)

// counted returns a histogram with one count of each duration.
func counted(ns ...uint64) string {
	h := record.NewHistogram()
	for _, d := range ns {
		h.Record(d)
	}
	return h.Encode()
}

// ofTwoClients returns a repeat of an open loop with two clients and all its sums.
func ofTwoClients() Repeat {
	client := func(reads, writes, all, response, lag string) record.ClientReport {
		return record.ClientReport{Latency: all, ReadLatency: reads, WriteLatency: writes,
			Open: &record.OpenReport{Response: record.TimingReport{Histogram: response},
				Lag: record.TimingReport{Histogram: lag}}}
	}
	return Repeat{
		Latency: counted(10, 20, 30, 5000), ReadLatency: counted(10, 30),
		WriteLatency: counted(20, 5000), Response: counted(100, 200), Lag: counted(1, 2),
		Samples: map[string]float64{},
		Ranks: []record.Report{{}, {Rank: 1, Clients: []record.ClientReport{
			client(counted(10), counted(20), counted(10, 20), counted(100), counted(1)),
			client(counted(30), counted(5000), counted(30, 5000), counted(200), counted(2)),
		}}},
	}
}

func TestSumsAreStoredOnce(t *testing.T) {
	r := sample(t)
	whole := ofTwoClients()
	r.Repeats = []Repeat{whole, whole}
	// What is no sum of others stays: lookups are in neither reads nor writes.
	r.Repeats[1].Ranks = []record.Report{{Clients: []record.ClientReport{{
		Latency: counted(7, 8, 9), ReadLatency: counted(7), WriteLatency: counted()}}}}
	r.Repeats[1].Latency, r.Repeats[1].Response = counted(7, 8, 9), counted(4)
	before := inMemory(t, r)

	text := encoded(t, r)
	schemaFile.Follows(t, text)
	require.Equal(t, before, inMemory(t, r), "the result itself is as before")
	for sum, times := range map[string]int{
		whole.Latency: 0, whole.ReadLatency: 1, whole.Lag: 1, // of the second repeat, no sums
		counted(10, 20): 0, counted(10): 1, counted(7, 8, 9): 1, counted(4): 1,
	} {
		require.Equal(t, times, bytes.Count(text, []byte(`"`+sum+`"`)))
	}

	read, err := Parse(text)
	require.NoError(t, err)
	require.Equal(t, before, inMemory(t, read))
}

// inMemory returns the repeats as they are in memory.
func inMemory(t *testing.T, r *Result) string {
	t.Helper()
	text, err := json.Marshal(r.Repeats)
	require.NoError(t, err)
	return string(text)
}

func TestHistogramsThatCannotBeAddedUp(t *testing.T) {
	r := sample(t)
	r.Repeats = []Repeat{ofTwoClients()}
	r.Repeats[0].Ranks[1].Clients[1].Open.Lag.Histogram = "HIST"
	_, err := Parse(encoded(t, r))
	require.NoError(t, err, "the window's own histogram is there")
	r.Repeats[0].Lag = ""
	_, err = Parse(encoded(t, r))
	require.ErrorContains(t, err, "repeat 0: decoding histogram")
}
