package result

import (
	"slices"
	"strings"

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
		for _, c := range r.Repeats[i].Clients() {
			nameMeanings(c.Transport)
		}
		for _, d := range r.Repeats[i].Daemons() {
			nameMeanings(d.Transport)
		}
	}
}

func nameMeanings(list []transport.Stat) {
	for i := range list {
		list[i].Means = meaningOf(list[i].Name)
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
