package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/wiring"
)

// TestDelegationToOneDaemon checks that a client calls one daemon of each rank.
func TestDelegationToOneDaemon(t *testing.T) {
	cfg := delegating(config.TopologyMeshDirect)
	for number := range 2 * cfg.Clients {
		r := newRoute(wiring.Wiring{Config: cfg, Rank: number / cfg.Clients}, number)
		for drawn := range cfg.TotalKeys() {
			key, owner, peer := r.choose(uint64(drawn))
			require.EqualValues(t, drawn, key)
			require.EqualValues(t, kv.RankOf(key, cfg.Ranks), owner)
			require.EqualValues(t, int(owner)*cfg.Daemons+number%cfg.Clients%cfg.Daemons, peer)
		}
	}
}

// TestRemoteShare counts the ranks that requests go to.
func TestRemoteShare(t *testing.T) {
	cfg := meshConfig(config.TopologyMeshDirect)
	cfg.Ranks, cfg.RemoteShare = 4, 0.25
	r := newRoute(wiring.Wiring{Config: cfg, Rank: 2}, 7)
	const draws = 100_000
	to := make([]int, cfg.Ranks)
	for i := range draws {
		key, owner, peer := r.choose(uint64(i % cfg.TotalKeys()))
		require.EqualValues(t, kv.RankOf(key, cfg.Ranks), peer)
		require.Equal(t, peer != 2, r.remote(owner))
		to[peer]++
	}
	for rank, count := range to {
		want := 0.25 / 3
		if rank == 2 {
			want = 0.75
		}
		require.InEpsilon(t, want*draws, count, 0.05)
	}
}

// TestTrafficRoutes draws the ranks that requests go to.
func TestTrafficRoutes(t *testing.T) {
	cfg := meshConfig(config.TopologyMeshDirect)
	cfg.Ranks, cfg.Daemons, cfg.Clients = 5, 2, 3
	draw := func(rank, client, draws int) (to []int, order []uint64) {
		r := newRoute(wiring.Wiring{Config: cfg, Rank: rank}, rank*cfg.Clients+client)
		to = make([]int, cfg.Ranks)
		for i := range draws {
			key, owner, peer := r.choose(uint64(i % cfg.TotalKeys()))
			require.EqualValues(t, kv.RankOf(key, cfg.Ranks), owner)
			require.EqualValues(t, int(owner)*cfg.Daemons+kv.DaemonOf(key, cfg.Daemons), peer)
			to[owner]++
			order = append(order, owner)
		}
		return to, order
	}

	cfg.Traffic = config.TrafficAllToAll
	to, order := draw(2, 0, 400)
	require.Equal(t, []int{100, 100, 0, 100, 100}, to)
	require.Equal(t, []uint64{3, 4, 0, 1, 3}, order[:5])
	_, order = draw(2, 1, 2)
	require.Equal(t, []uint64{4, 0}, order, "the clients of a rank do not begin with the same rank")
	_, order = draw(4, 0, 2)
	require.Equal(t, []uint64{0, 1}, order)

	cfg.Traffic = "hotspot:0.7"
	const draws = 100_000
	to, _ = draw(3, 0, draws)
	again, _ := draw(3, 0, draws)
	require.Equal(t, to, again, "the seed decides")
	for rank, share := range []float64{0.7, 0.1, 0.1, 0, 0.1} {
		requireShare(t, share, uint64(to[rank]), draws, draws)
	}
	to, _ = draw(hotRank, 0, draws)
	for rank, share := range []float64{0, 0.25, 0.25, 0.25, 0.25} {
		requireShare(t, share, uint64(to[rank]), draws, draws)
	}

	cfg.Traffic = "matrix:0:1:0:0:3/0:0:0:0:0/1:0:0:0:0/1:0:0:0:0/1:0:0:0:0"
	to, _ = draw(0, 1, draws)
	for rank, share := range []float64{0, 0.25, 0, 0, 0.75} {
		requireShare(t, share, uint64(to[rank]), draws, draws)
	}
}
