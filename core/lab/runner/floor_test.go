package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
)

func TestPairForFloor(t *testing.T) {
	plans := func(cpus ...[]int) (p []record.Plan) {
		for r, c := range cpus {
			p = append(p, record.Plan{Rank: r, CPUs: c})
		}
		return p
	}
	client := func(r, i int) record.Thread { return record.Thread{Rank: r, Daemon: -1, Client: i} }
	daemon := func(r, i int) record.Thread { return record.Thread{Rank: r, Daemon: i, Client: -1} }
	none := floorPair{}
	for name, c := range map[string]struct {
		topology   string
		daemons    int
		plans      []record.Plan
		processors int
		want       floorPair
	}{
		"own processors":            {"client-server", 1, plans([]int{0}, []int{1}), 2, floorPair{daemon(0, 0), client(1, 0)}},
		"the first client shares":   {"client-server", 1, plans([]int{0}, []int{0, 1}), 2, floorPair{daemon(0, 0), client(1, 1)}},
		"another rank's client":     {"client-server", 1, plans([]int{0}, []int{0}, []int{0, 1}), 2, floorPair{daemon(0, 0), client(2, 1)}},
		"only another daemon":       {"client-server", 2, plans([]int{0, 1}, []int{0}), 2, floorPair{daemon(0, 1), client(1, 0)}},
		"all share":                 {"client-server", 1, plans([]int{0}, []int{0, 0}), 2, none},
		"not pinned":                {"client-server", 1, plans([]int{-1}, []int{-1}), 2, floorPair{daemon(0, 0), client(1, 0)}},
		"not pinned, one processor": {"client-server", 1, plans([]int{-1}, []int{-1}), 1, none},
		// A rank's daemons come first. In mesh-direct, clients of other ranks call the daemon.
		"direct":            {"mesh-direct", 1, plans([]int{0, 1}, []int{2, 3}), 4, floorPair{daemon(0, 0), client(1, 0)}},
		"direct, sharing":   {"mesh-direct", 1, plans([]int{0, 0}, []int{1, 0}), 2, none},
		"direct, a further": {"mesh-direct", 1, plans([]int{0, 0}, []int{1, 0, 1}), 2, floorPair{daemon(0, 0), client(1, 1)}},
		// In mesh-proxied, daemons of the same index call each other.
		"proxied":          {"mesh-proxied", 1, plans([]int{0, 1}, []int{2, 3}), 4, floorPair{daemon(0, 0), daemon(1, 0)}},
		"proxied, second":  {"mesh-proxied", 2, plans([]int{0, 1, 0}, []int{0, 0, 1}), 2, floorPair{daemon(0, 1), daemon(1, 1)}},
		"proxied, sharing": {"mesh-proxied", 2, plans([]int{0, 1, 2}, []int{0, 1, 2}), 3, none},
	} {
		cfg := config.Default()
		cfg.Topology, cfg.Ranks, cfg.Daemons = c.topology, len(c.plans), c.daemons
		got, ok := pairForFloor(cfg, c.plans, c.processors)
		require.Equal(t, c.want != none, ok, name)
		if ok {
			require.Equal(t, c.want, got, name)
		}
	}
}
