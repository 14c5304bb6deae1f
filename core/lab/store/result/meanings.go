package result

import (
	"slices"
	"strings"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// Parts of the names of counters.
var (
	shortageNames = []string{"credit", "full", "stall", "receiver_not_ready", "held",
		"sends_pending"}
	againNames    = []string{"retransmi", "drop"}
	strangerNames = []string{"strangers", "forged"}
)

// addMeanings tells the meaning of counters by their names in results of schema 2.0 and before,
// which did not have it.
func (r *Result) addMeanings() {
	if r.MigratedFrom == "" && !strings.HasPrefix(r.SchemaVersion, "2.0.") {
		return
	}
	for i := range r.Repeats {
		for _, t := range record.Threads(r.Repeats[i].Ranks) {
			for j := range t.Transport {
				t.Transport[j].Means = meaningOf(t.Transport[j].Name)
			}
		}
	}
}

func meaningOf(name string) transport.Meaning {
	has := func(parts []string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(name, p) })
	}
	switch {
	case slices.Contains(strangerNames, name):
		return transport.MeansStranger
	case has(againNames):
		return transport.MeansRetransmission
	case has(shortageNames):
		return transport.MeansShortage
	}
	return ""
}
