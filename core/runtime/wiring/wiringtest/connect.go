package wiringtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/wiring"
	"transportbench/core/transport"
)

// Rank has the workers of one rank.
type Rank struct {
	wiring.Wiring
	Daemons, Clients []transport.Worker
}

// Connect returns the ranks of a run without proxies, with their workers connected. The end of the
// test closes the transports.
func Connect(t testing.TB, driver transport.Driver, cfg config.Config) []Rank {
	ranks := make([]Rank, cfg.Ranks)
	addresses := make([]record.RankWorkers, cfg.Ranks)
	options, err := transport.ParseOptions(driver.Info().Options, cfg.Options)
	require.NoError(t, err)
	for i := range ranks {
		r, a := &ranks[i], &addresses[i]
		r.Wiring, a.Rank = wiring.Wiring{Config: cfg, Rank: i}, i
		tr, err := driver.Open(t.Context(), transport.Config{Rank: i, Workers: r.Workers(),
			Peers: r.Peers(), InFlight: cfg.CallsPerConnection(), MaxPayload: cfg.LargestMessage(),
			HostPrefix: kv.HeaderSize, Options: options})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		daemons, _ := cfg.Threads(i)
		for index := range r.Workers() {
			w, err := tr.NewWorker(index)
			require.NoError(t, err)
			if index < daemons {
				r.Daemons, a.Daemons = append(r.Daemons, w), append(a.Daemons, w.Address())
			} else {
				r.Clients, a.Clients = append(r.Clients, w), append(a.Clients, w.Address())
			}
		}
	}
	for _, r := range ranks {
		connect := func(w transport.Worker, near record.Thread) {
			for _, c := range r.Connections(near, addresses) {
				require.NoError(t, w.Connect(t.Context(), c.Peer, c.Address))
			}
		}
		for i, w := range r.Daemons {
			connect(w, record.Thread{Rank: r.Rank, Daemon: i, Client: -1})
		}
		for i, w := range r.Clients {
			connect(w, record.Thread{Rank: r.Rank, Daemon: -1, Client: i})
		}
	}
	return ranks
}
