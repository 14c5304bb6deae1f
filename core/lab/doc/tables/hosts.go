package tables

import (
	"fmt"
	"strings"

	"transportbench/core/lab/store/result"
)

// hostsOf returns which ranks ran on which host, and near which network device. It returns nothing
// for a run on the host of the command.
func hostsOf(r *result.Result) string {
	if len(r.Hosts) == 0 {
		return ""
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
		near := ""
		if h.Device != nil {
			near = fmt.Sprintf(", near %s on NUMA node %d", h.Device.Name, h.Device.Node)
		}
		hosts = append(hosts, fmt.Sprintf("%s (%s %s%s)", h.Name, word, strings.Join(ranks, ", "),
			near))
	}
	return "hosts: " + strings.Join(hosts, ", ")
}
