package client

import (
	"transportbench/core/base/config"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
	"transportbench/core/transport"
)

// route chooses the peer for each request of a client.
type route struct {
	ranks, daemons uint64
	own            uint64 // the client's rank, as a server
	mesh, proxied  bool
	delegates      bool   // the client calls daemon, which passes requests on
	daemon         uint64 // unless the key's owner is called
	policy         policy
	// ranks: all but the client's own, and with toHot but the hot one; of a matrix, each as often
	// as its weight says
	targets []uint64
	turn    int // inTurn: the index in targets of the next one
	// byShare: of the other ranks; toHot: of the hot rank; a fraction of 2^63
	share  uint64
	random loop.Random
}

// policy is how a route chooses the rank of a request. All policies but byKey replace the drawn key
// by its neighbour on that rank.
type policy uint8

const (
	byKey   policy = iota // the rank that owns the key
	byShare               // the client's own rank, or with the share another
	inTurn                // one target after the other
	toHot                 // with the share the hot rank, else another target
)

// matrixTargets is the number of targets among which the weights of a row of a matrix are divided.
const matrixTargets = 1 << 10

// hotRank is the hot rank of [config.TrafficHotspot].
const hotRank = 0

// newRoute returns the route of one client; number seeds its choices.
func newRoute(w wiring.Wiring, number int) route {
	cfg := w.Config
	r := route{
		ranks: uint64(cfg.ServingRanks()), daemons: uint64(cfg.Daemons),
		own: uint64(w.Rank), mesh: cfg.Mesh(), proxied: cfg.Proxied(),
		delegates: cfg.Delegate, daemon: uint64(number%cfg.Clients) % uint64(cfg.Daemons),
		random: loop.NewRandom(cfg.Seed, uint64(number), loop.DrawRoutes),
	}
	share, m := cfg.Traffic.Share(), cfg.Traffic.Matrix()
	switch {
	case m != nil:
		r.policy, share, r.targets = byShare, 1, m.Targets(w.Rank, matrixTargets)
	case cfg.Turns() > 0:
		r.policy = inTurn
	case share > 0 && r.own != hotRank:
		r.policy = toHot
	case share > 0: // the hot rank calls the others equally often
		r.policy, share = byShare, 1
	case cfg.Mesh() && cfg.RemoteShare != config.ByHash:
		r.policy, share = byShare, float64(cfg.RemoteShare)
	}
	r.share = uint64(share * (1 << 63))
	if r.policy == byKey || len(r.targets) > 0 {
		return r
	}
	for rank := range r.ranks {
		if rank != r.own && !(r.policy == toHot && rank == hotRank) {
			r.targets = append(r.targets, rank)
		}
	}
	if r.policy == inTurn { // begin with different ranks: the next ones after the client's own
		r.turn = (w.Rank + number%cfg.Clients) % len(r.targets)
	}
	return r
}

// single reports whether there is only one daemon to call.
func (r *route) single() bool { return r.ranks*r.daemons == 1 }

// choose returns the key to request in place of the drawn one, the rank that owns it, and the peer
// to call.
func (r *route) choose(key uint64) (_, owner uint64, _ transport.PeerID) {
	if r.ranks > 1 {
		if r.policy == byKey {
			owner = uint64(kv.RankOf(key, int(r.ranks)))
		} else {
			owner = r.chooseRank()
			key = kv.OnRank(key, int(owner), int(r.ranks))
		}
	}
	daemon := r.daemon
	if r.daemons > 1 && !r.delegates {
		daemon = uint64(kv.DaemonOf(key, int(r.daemons)))
	}
	peer := owner*r.daemons + daemon
	if r.proxied {
		peer = daemon
	}
	return key, owner, transport.PeerID(peer)
}

// remote reports whether, in a mesh, a rank is not the client's own.
func (r *route) remote(rank uint64) bool { return r.mesh && rank != r.own }

// chooseRank returns the rank to call.
func (r *route) chooseRank() uint64 {
	if r.policy == inTurn {
		target := r.targets[r.turn]
		if r.turn++; r.turn == len(r.targets) {
			r.turn = 0
		}
		return target
	}
	within := r.random.Next()>>1 < r.share
	switch {
	case r.policy == toHot && (within || len(r.targets) == 0):
		return hotRank
	case r.policy == byShare && !within:
		return r.own
	}
	return r.targets[r.random.Below(uint64(len(r.targets)))]
}
