package result

import (
	"slices"
	"strings"

	"transportbench/core/transport"
)

// Parts of the names of counters, for results of transports that did not say what a counter means.
var (
	shortageNames = []string{"credit", "full", "stall", "receiver_not_ready", "held",
		"sends_pending"}
	againNames    = []string{"retransmi", "drop"}
	strangerNames = []string{"strangers", "forged"}
)

// addMeanings tells the meaning of counters by their names, if no counter of the result has one.
func (r *Result) addMeanings() {
	var lists [][]transport.Stat
	for i := range r.Repeats {
		for _, c := range r.Repeats[i].Clients() {
			lists = append(lists, c.Transport)
		}
		for _, d := range r.Repeats[i].Daemons() {
			lists = append(lists, d.Transport)
		}
	}
	for _, list := range lists {
		if slices.ContainsFunc(list, func(s transport.Stat) bool { return s.Means != "" }) {
			return
		}
	}
	for _, list := range lists {
		for i := range list {
			list[i].Means = meaningOf(list[i].Name)
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
