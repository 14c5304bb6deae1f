package wiring

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

func TestWiring(t *testing.T) {
	direct := Wiring{Config: meshConfig(config.TopologyMeshDirect), Rank: 1}
	direct.Config.Ranks, direct.Config.Daemons, direct.Config.Clients = 3, 2, 4
	require.Equal(t, 6, direct.Workers())
	require.Equal(t, 12, direct.Peers())
	peer, err := direct.Peer(record.Thread{Rank: 1, Daemon: 0, Client: -1},
		record.Thread{Rank: 2, Daemon: -1, Client: 3})
	require.NoError(t, err)
	require.EqualValues(t, 11, peer)

	proxied := Wiring{Config: direct.Config, Rank: 1}
	proxied.Config.Topology = config.TopologyMeshProxied
	require.Equal(t, 2, proxied.Workers())
	require.Equal(t, 2, proxied.Peers())
	for far, want := range map[int]transport.PeerID{0: 0, 2: 1} {
		peer, err := proxied.Peer(record.Thread{Rank: 1, Daemon: 1, Client: -1},
			record.Thread{Rank: far, Daemon: 1, Client: -1})
		require.NoError(t, err)
		require.Equal(t, want, peer)
	}
	_, err = proxied.Peer(record.Thread{Rank: 1, Daemon: 1, Client: -1},
		record.Thread{Rank: 0, Daemon: 0, Client: -1})
	require.ErrorContains(t, err, "have no connection")
}

func meshConfig(topology string) config.Config {
	cfg := config.Default()
	cfg.Topology, cfg.Ranks, cfg.Daemons, cfg.Clients = topology, 2, 2, 2
	return cfg
}
