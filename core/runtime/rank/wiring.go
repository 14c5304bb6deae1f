package rank

import (
	"fmt"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// wiring is who calls whom over the transport, as one rank sees it. Peers are
// numbered without gaps: a client numbers the daemons of all serving ranks, a
// daemon the clients of all calling ranks, and a daemon of mesh-proxied the
// other ranks, of which it knows the daemon with its own index.
type wiring struct {
	cfg  config.Config
	rank int
}

// workers is how many threads of the rank hold a worker of the transport.
func (w wiring) workers() int {
	daemons, clients := w.cfg.Threads(w.rank)
	if w.cfg.Proxied() {
		return daemons
	}
	return daemons + clients
}

// peers is the most connections of one worker.
func (w wiring) peers() int {
	if w.cfg.Proxied() {
		return w.cfg.Ranks - 1
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

// served is the most requests from peers that a daemon has open.
func (w wiring) served() int {
	if w.cfg.Proxied() {
		return (w.cfg.Ranks - 1) * w.cfg.CallsPerConnection()
	}
	return w.cfg.CallingRanks() * w.cfg.Clients * w.cfg.InFlight
}

// server is the number by which a client knows a daemon.
func (w wiring) server(rank, daemon int) transport.PeerID {
	return transport.PeerID(rank*w.cfg.Daemons + daemon)
}

// caller is the number by which a daemon knows a client.
func (w wiring) caller(rank, client int) transport.PeerID {
	return transport.PeerID(w.cfg.CallerNumber(rank)*w.cfg.Clients + client)
}

// other is the number by which a daemon of mesh-proxied knows another rank.
func (w wiring) other(rank int) transport.PeerID {
	if rank > w.rank {
		rank--
	}
	return transport.PeerID(rank)
}

// peer returns the number by which a thread of this rank knows another thread.
func (w wiring) peer(near, far record.Thread) (transport.PeerID, error) {
	switch {
	case w.cfg.Proxied() && near.IsDaemon() && far.IsDaemon() && near.Daemon == far.Daemon && far.Rank != w.rank:
		return w.other(far.Rank), nil
	case !w.cfg.Proxied() && near.IsDaemon() && !far.IsDaemon():
		return w.caller(far.Rank, far.Client), nil
	case !w.cfg.Proxied() && !near.IsDaemon() && far.IsDaemon():
		return w.server(far.Rank, far.Daemon), nil
	}
	return 0, fmt.Errorf("%v and %v have no connection in %s", near, far, w.cfg.Topology)
}

// connection is one peer of a worker.
type connection struct {
	peer    transport.PeerID
	address []byte
}

// connections are the peers of a thread of this rank, out of the workers of all
// ranks.
func (w wiring) connections(near record.Thread, all []record.RankWorkers) []connection {
	var list []connection
	for _, far := range all {
		switch {
		case w.cfg.Proxied():
			if far.Rank != w.rank {
				list = append(list, connection{w.other(far.Rank), far.Daemons[near.Daemon]})
			}
		case near.IsDaemon():
			for i, address := range far.Clients {
				list = append(list, connection{w.caller(far.Rank, i), address})
			}
		default:
			for i, address := range far.Daemons {
				list = append(list, connection{w.server(far.Rank, i), address})
			}
		}
	}
	return list
}
