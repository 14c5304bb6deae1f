package result

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// TestMeanings: counters of results that say nothing of their meaning get it by their names, and
// those of other results keep what they say.
func TestMeanings(t *testing.T) {
	of := func(stats ...transport.Stat) *Result {
		r := new(Result)
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
		r := of(transport.Stat{Name: name})
		require.Equal(t, want, r.Repeats[0].Clients()[0].Transport[0].Means, name)
	}
	r := of(transport.Stat{Name: "room", Means: transport.MeansShortage},
		transport.Stat{Name: "full"})
	require.Empty(t, r.Repeats[0].Clients()[0].Transport[1].Means)
}
