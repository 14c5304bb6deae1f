package rank

import (
	"fmt"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// wiring describes the connections of one rank over the transport. Peer numbers are dense: a
// client numbers the daemons of all serving ranks, a daemon numbers the clients of all calling
// ranks, and a daemon of mesh-proxied numbers the other ranks, where it is connected to the
// daemon with its own index.
type wiring struct {
	cfg   config.Config
	rank  int
	kinds []record.CallKind // as in [record.Plan]
}

// workers returns how many threads of the rank have a worker of the transport.
func (w wiring) workers() int {
	daemons, clients := w.cfg.Threads(w.rank)
	if w.cfg.Proxied() {
		return daemons
	}
	return daemons + clients
}

// peers returns the largest number of connections of any worker, at least 1: a transport has room
// for a peer even if mesh-proxied has one rank.
func (w wiring) peers() int {
	if w.cfg.Proxied() {
		return max(w.cfg.Ranks-1, 1)
	}
	peers := 0
	if w.cfg.Serves(w.rank) {
		peers = w.cfg.CallingRanks() * w.cfg.Clients
	}
	if w.cfg.Calls(w.rank) {
		peers = max(peers, w.cfg.ServingRanks()*w.cfg.Daemons)
	}
	return peers
}

// openRequests returns the largest number of peers' requests that a daemon has open.
func (w wiring) openRequests() int {
	if w.cfg.Proxied() {
		return (w.cfg.Ranks - 1) * w.cfg.CallsPerConnection()
	}
	return w.cfg.CallingRanks() * w.cfg.Clients * w.cfg.InFlight
}

// openCalls returns the largest number of requests that peers, and in mesh-proxied the clients of
// its rank, have open at a daemon.
func (w wiring) openCalls() int {
	open := w.openRequests()
	if w.cfg.Proxied() {
		open += w.cfg.CallsPerConnection()
	}
	return open
}

// daemonPeer returns a client's number for a daemon.
func (w wiring) daemonPeer(rank, daemon int) transport.PeerID {
	return transport.PeerID(rank*w.cfg.Daemons + daemon)
}

// clientPeer returns a daemon's number for a client.
func (w wiring) clientPeer(rank, client int) transport.PeerID {
	return transport.PeerID(w.cfg.CallerNumber(rank)*w.cfg.Clients + client)
}

// rankPeer returns the number for another rank that a daemon of mesh-proxied uses.
func (w wiring) rankPeer(rank int) transport.PeerID {
	if rank > w.rank {
		rank--
	}
	return transport.PeerID(rank)
}

// peer returns the number that a thread of this rank has for another thread.
func (w wiring) peer(near, far record.Thread) (transport.PeerID, error) {
	switch {
	case w.cfg.Proxied() && near.IsDaemon() && far.IsDaemon() && near.Daemon == far.Daemon &&
		far.Rank != w.rank:
		return w.rankPeer(far.Rank), nil
	case !w.cfg.Proxied() && near.IsDaemon() && !far.IsDaemon():
		return w.clientPeer(far.Rank, far.Client), nil
	case !w.cfg.Proxied() && !near.IsDaemon() && far.IsDaemon():
		return w.daemonPeer(far.Rank, far.Daemon), nil
	}
	return 0, fmt.Errorf("%v and %v have no connection in %s", near, far, w.cfg.Topology)
}

// connection is one peer of a worker.
type connection struct {
	peer    transport.PeerID
	address []byte
}

// connections returns the peers of a thread of this rank; all has the workers of all ranks.
func (w wiring) connections(near record.Thread, all []record.RankWorkers) []connection {
	var list []connection
	for _, far := range all {
		switch {
		case w.cfg.Proxied():
			if far.Rank != w.rank {
				list = append(list, connection{w.rankPeer(far.Rank), far.Daemons[near.Daemon]})
			}
		case near.IsDaemon():
			for i, address := range far.Clients {
				list = append(list, connection{w.clientPeer(far.Rank, i), address})
			}
		default:
			for i, address := range far.Daemons {
				list = append(list, connection{w.daemonPeer(far.Rank, i), address})
			}
		}
	}
	return list
}

// route chooses the peer for each request of a client.
type route struct {
	ranks, daemons uint64
	own            uint64 // the client's rank, as a server
	mesh, proxied  bool
	delegates      bool   // the client calls daemon, which passes requests on
	daemon         uint64 // unless the key's owner is called
	policy         policy
	targets        []uint64 // ranks: all but the client's own, and with toHot but the hot one
	turn           int      // inTurn: the index in targets of the next one
	// byShare: of the other ranks; toHot: of the hot rank; a fraction of 2^63
	share  uint64
	random random
}

// policy is how a route chooses the rank of a request. All but byKey replace the drawn key by its
// neighbour on that rank.
type policy uint8

const (
	byKey   policy = iota // the rank that owns the key
	byShare               // the client's own rank, or with the share another
	inTurn                // one target after the other
	toHot                 // with the share the hot rank, else another target
)

// hotRank is the hot rank of [config.TrafficHotspot].
const hotRank = 0

// newRoute returns the route of one client; number seeds its choices.
func newRoute(w wiring, number int) route {
	cfg := w.cfg
	r := route{
		ranks: uint64(cfg.ServingRanks()), daemons: uint64(cfg.Daemons),
		own: uint64(w.rank), mesh: cfg.Mesh(), proxied: cfg.Proxied(),
		delegates: cfg.Delegate, daemon: uint64(number%cfg.Clients) % uint64(cfg.Daemons),
		random: newRandom(cfg.Seed, uint64(number), drawRoutes),
	}
	share := cfg.Traffic.Share()
	switch {
	case cfg.Turns() > 0:
		r.policy = inTurn
	case share > 0 && r.own != hotRank:
		r.policy = toHot
	case share > 0: // the hot rank calls the others alike
		r.policy, share = byShare, 1
	case cfg.Mesh() && cfg.RemoteShare != config.ByHash:
		r.policy, share = byShare, float64(cfg.RemoteShare)
	}
	r.share = uint64(share * (1 << 63))
	if r.policy == byKey {
		return r
	}
	for rank := range r.ranks {
		if rank != r.own && !(r.policy == toHot && rank == hotRank) {
			r.targets = append(r.targets, rank)
		}
	}
	if r.policy == inTurn { // begin with different ranks: the next ones after the client's own
		r.turn = (w.rank + number%cfg.Clients) % len(r.targets)
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

// remote reports whether a rank is another than the client's own in a mesh.
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
	within := r.random.next()>>1 < r.share
	switch {
	case r.policy == toHot && (within || len(r.targets) == 0):
		return hotRank
	case r.policy == byShare && !within:
		return r.own
	}
	return r.targets[r.random.below(uint64(len(r.targets)))]
}
