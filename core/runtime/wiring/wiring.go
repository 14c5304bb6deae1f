package wiring

import (
	"fmt"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// Wiring describes the connections of one rank over the transport. Peer numbers are dense: a
// client numbers the daemons of all serving ranks, a daemon numbers the clients of all calling
// ranks, and a daemon of mesh-proxied numbers the other ranks, where it is connected to the
// daemon with its own index.
type Wiring struct {
	Config config.Config
	Rank   int
	Kinds  []record.CallKind // as in [record.Plan]
	Replay string            // as in [record.Plan]
}

// Workers returns how many threads of the rank have a worker of the transport.
func (w Wiring) Workers() int {
	daemons, clients := w.Config.Threads(w.Rank)
	if w.Config.Proxied() {
		return daemons
	}
	return daemons + clients
}

// Peers returns the largest number of connections of any worker, at least 1: a transport has room
// for a peer even if mesh-proxied has one rank.
func (w Wiring) Peers() int {
	if w.Config.Proxied() {
		return max(w.Config.Ranks-1, 1)
	}
	peers := 0
	if w.Config.Serves(w.Rank) {
		peers = w.Config.CallingRanks() * w.Config.Clients
	}
	if w.Config.Calls(w.Rank) {
		peers = max(peers, w.Config.ServingRanks()*w.Config.Daemons)
	}
	return peers
}

// OpenRequests returns the largest number of peers' requests that a daemon has open.
func (w Wiring) OpenRequests() int {
	if w.Config.Proxied() {
		return (w.Config.Ranks - 1) * w.Config.CallsPerConnection()
	}
	return w.Config.CallingRanks() * w.Config.Clients * w.Config.InFlight
}

// OpenCalls returns the largest number of requests that peers, and in mesh-proxied the clients of
// its rank, have open at a daemon.
func (w Wiring) OpenCalls() int {
	open := w.OpenRequests()
	if w.Config.Proxied() {
		open += w.Config.CallsPerConnection()
	}
	return open
}

// DaemonPeer returns a client's number for a daemon.
func (w Wiring) DaemonPeer(rank, daemon int) transport.PeerID {
	return transport.PeerID(rank*w.Config.Daemons + daemon)
}

// ClientPeer returns a daemon's number for a client.
func (w Wiring) ClientPeer(rank, client int) transport.PeerID {
	return transport.PeerID(w.Config.CallerNumber(rank)*w.Config.Clients + client)
}

// RankPeer returns the number for another rank that a daemon of mesh-proxied uses.
func (w Wiring) RankPeer(rank int) transport.PeerID {
	if rank > w.Rank {
		rank--
	}
	return transport.PeerID(rank)
}

// Peer returns the number that a thread of this rank has for another thread.
func (w Wiring) Peer(near, far record.Thread) (transport.PeerID, error) {
	switch {
	case w.Config.Proxied() && near.IsDaemon() && far.IsDaemon() && near.Daemon == far.Daemon &&
		far.Rank != w.Rank:
		return w.RankPeer(far.Rank), nil
	case !w.Config.Proxied() && near.IsDaemon() && !far.IsDaemon():
		return w.ClientPeer(far.Rank, far.Client), nil
	case !w.Config.Proxied() && !near.IsDaemon() && far.IsDaemon():
		return w.DaemonPeer(far.Rank, far.Daemon), nil
	}
	return 0, fmt.Errorf("%v and %v have no connection in %s", near, far, w.Config.Topology)
}

// Connection is one peer of a worker.
type Connection struct {
	Peer    transport.PeerID
	Address []byte
}

// Connections returns the peers of a thread of this rank; all has the workers of all ranks.
func (w Wiring) Connections(near record.Thread, all []record.RankWorkers) []Connection {
	var list []Connection
	for _, far := range all {
		switch {
		case w.Config.Proxied():
			if far.Rank != w.Rank {
				list = append(list, Connection{w.RankPeer(far.Rank), far.Daemons[near.Daemon]})
			}
		case near.IsDaemon():
			for i, address := range far.Clients {
				list = append(list, Connection{w.ClientPeer(far.Rank, i), address})
			}
		default:
			for i, address := range far.Daemons {
				list = append(list, Connection{w.DaemonPeer(far.Rank, i), address})
			}
		}
	}
	return list
}
