package present

import (
	"fmt"
	"strings"

	"transportbench/core/base/record"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
)

// hostsOf returns which ranks ran on which host, and the floors of both kinds of pairs if a run has both:
// its metrics have only those between machines. It returns nothing for a run on the host of the command.
func hostsOf(r *result.Result) []string {
	if len(r.Hosts) == 0 {
		return nil
	}
	var hosts []string
	for _, h := range r.Hosts {
		ranks := make([]string, len(h.Ranks))
		for i, rank := range h.Ranks {
			ranks[i] = fmt.Sprint(rank)
		}
		word := "ranks"
		if len(ranks) == 1 {
			word = "rank"
		}
		hosts = append(hosts, fmt.Sprintf("%s (%s %s)", h.Name, word, strings.Join(ranks, ", ")))
	}
	lines := []string{"hosts: " + strings.Join(hosts, ", ")}
	if far, near := floorsOf(r, true), floorsOf(r, false); len(far) > 0 && len(near) > 0 {
		lines = append(lines, fmt.Sprintf("floor: %s between machines, %s within one",
			format.Time(record.Median(far)), format.Time(record.Median(near))))
	}
	return lines
}

// floorsOf returns the medium floors of all pairs on different machines, or of all others.
func floorsOf(r *result.Result, crossing bool) (values []float64) {
	for i := range r.Repeats {
		for _, side := range []*result.Readings{&r.Repeats[i].Before, &r.Repeats[i].After} {
			for _, p := range side.Pairs {
				if p.Crosses == crossing && p.Medium > 0 {
					values = append(values, p.Medium)
				}
			}
		}
	}
	return values
}
