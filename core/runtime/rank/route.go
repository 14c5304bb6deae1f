package rank

import (
	"transportbench/core/base/config"
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// route decides where a client's requests go.
type route struct {
	ranks, daemons uint64
	own            uint64 // the client's rank, as a server
	mesh, proxied  bool
	// forced replaces the keys that were drawn by their neighbours on the rank
	// of choice: another than the own for draws below remote.
	forced bool
	remote uint64 // share of 2^63
	random random
}

// newRoute makes the route of one client; number seeds its choices.
func newRoute(w wiring, number int) route {
	cfg := w.cfg
	r := route{
		ranks: uint64(cfg.ServingRanks()), daemons: uint64(cfg.Daemons),
		own: uint64(w.rank), mesh: cfg.Mesh(), proxied: cfg.Proxied(),
		forced: cfg.Mesh() && cfg.RemoteShare != config.ByHash,
		random: newRandom(cfg.Seed, uint64(number), drawRoutes),
	}
	if r.forced {
		r.remote = uint64(float64(cfg.RemoteShare) * (1 << 63))
	}
	return r
}

// simple says that there is one daemon only and nothing to decide.
func (r *route) simple() bool { return r.ranks*r.daemons == 1 }

// choose returns the key to ask for instead of the one that was drawn, the peer
// to ask, and whether another rank than the own has it.
func (r *route) choose(key uint64) (uint64, transport.PeerID, bool) {
	owner := uint64(0)
	if r.mesh {
		if r.forced {
			owner = r.draw()
			key = kv.OnRank(key, int(owner), int(r.ranks))
		} else {
			owner = uint64(kv.RankOf(key, int(r.ranks)))
		}
	}
	daemon := uint64(0)
	if r.daemons > 1 {
		daemon = uint64(kv.Owner(key, int(r.daemons)))
	}
	peer := owner*r.daemons + daemon
	if r.proxied {
		peer = daemon
	}
	return key, transport.PeerID(peer), r.mesh && owner != r.own
}

// draw chooses a rank: the own, or any of the others.
func (r *route) draw() uint64 {
	if r.random.next()>>1 >= r.remote {
		return r.own
	}
	other := r.random.below(r.ranks - 1)
	if other >= r.own {
		other++
	}
	return other
}
