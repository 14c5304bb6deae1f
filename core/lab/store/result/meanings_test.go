package result

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// TestMeanings: counters of results of a schema without meanings get them by their names, and those
// of later results keep what their transports say, or do not say.
func TestMeanings(t *testing.T) {
	of := func(version string, stats ...transport.Stat) *Result {
		r := &Result{SchemaVersion: version}
		r.Repeats = []Repeat{{Ranks: []record.Report{{
			Clients: []record.ClientReport{{Transport: stats}}}}}}
		r.addMeanings()
		return r
	}
	for name, want := range map[string]transport.Meaning{
		"ring_full": transport.MeansShortage, "retransmits": transport.MeansRetransmission,
		"receive_drops": transport.MeansRetransmission, "forged": transport.MeansStranger,
		"posted": "",
	} {
		r := of("2.0.0", transport.Stat{Name: name})
		require.Equal(t, want, r.Repeats[0].Clients()[0].Transport[0].Means, name)
	}
	r := of(SchemaVersion, transport.Stat{Name: "full"})
	require.Empty(t, r.Repeats[0].Clients()[0].Transport[0].Means)
	r.MigratedFrom = "1.3.0"
	r.addMeanings()
	require.Equal(t, transport.MeansShortage, r.Repeats[0].Clients()[0].Transport[0].Means)
}
