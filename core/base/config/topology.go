package config

// The topologies: which ranks serve, which call, and how.
const (
	// TopologyClientServer: rank 0, or the first Config.Servers ranks, serve, and the clients of
	// the other ranks call them over the transport. With TrafficFanOut, the last rank calls and the
	// others serve.
	TopologyClientServer = "client-server"
	// TopologyMeshDirect: every rank serves and calls. A client calls the daemons of all ranks,
	// including its own, over the transport.
	TopologyMeshDirect = "mesh-direct"
	// TopologyMeshProxied: every rank serves and calls. A client calls a daemon of its own rank
	// over shared memory. The daemon answers requests for keys that the rank owns and forwards
	// the others over the transport.
	TopologyMeshProxied = "mesh-proxied"
)

func topologies() []string {
	return []string{TopologyClientServer, TopologyMeshDirect, TopologyMeshProxied}
}

// Mesh reports whether every rank serves and calls.
func (c *Config) Mesh() bool { return c.Topology != TopologyClientServer }

// Proxied reports whether clients reach other ranks through the daemons of their own rank.
func (c *Config) Proxied() bool { return c.Topology == TopologyMeshProxied }

// Serves reports whether a rank has daemons.
func (c *Config) Serves(rank int) bool { return rank < c.ServingRanks() }

// Calls reports whether a rank has clients.
func (c *Config) Calls(rank int) bool { return rank >= c.Ranks-c.CallingRanks() }

// ServingRanks returns the number of ranks with daemons. They have the lowest numbers.
func (c *Config) ServingRanks() int {
	switch {
	case c.Mesh():
		return c.Ranks
	case c.Traffic.Name() == TrafficFanOut:
		return c.Ranks - 1
	}
	return c.Servers.value()
}

// minRanks returns the smallest number of ranks: a mesh may have one, whose clients call its own
// daemons.
func (c *Config) minRanks() int {
	if c.Mesh() {
		return 1
	}
	return 2
}

// CallingRanks returns the number of ranks with clients. They have the highest numbers.
func (c *Config) CallingRanks() int {
	if c.Mesh() {
		return c.Ranks
	}
	return c.Ranks - c.ServingRanks()
}

// CallerNumber returns the number of a calling rank among the calling ranks, from 0.
func (c *Config) CallerNumber(rank int) int {
	return rank - (c.Ranks - c.CallingRanks())
}

// Threads returns the numbers of daemons and clients of a rank, each a polling thread.
func (c *Config) Threads(rank int) (daemons, clients int) {
	if c.Serves(rank) {
		daemons = c.Daemons
	}
	if c.Calls(rank) {
		clients = c.Clients
	}
	return daemons, clients
}

// TotalKeys returns the number of distinct keys of all serving ranks.
func (c *Config) TotalKeys() int { return c.Keys * c.ServingRanks() }

// StoredKeys returns the number of entries that the stores of all serving ranks are filled with.
func (c *Config) StoredKeys() int {
	if c.Service != ServiceStore {
		return 0
	}
	return c.TotalKeys()
}

// TotalClients returns the number of clients of all calling ranks.
func (c *Config) TotalClients() int { return c.Clients * c.CallingRanks() }

// CallsPerConnection returns the largest number of calls in flight on one connection of the
// transport: those of a client, or in mesh-proxied those of all clients of a rank.
func (c *Config) CallsPerConnection() int {
	if c.Proxied() {
		return c.Clients * c.InFlight
	}
	return c.InFlight
}

// IndependentPairs returns the largest number of pairs of a client and a daemon that share no
// thread.
func (c *Config) IndependentPairs() int { return min(c.TotalClients(), c.ServingRanks()*c.Daemons) }

// CallsPerPair returns the number of calls in flight for each independent pair, if all clients
// share the pairs: with more clients than daemons, a daemon has the calls of several.
func (c *Config) CallsPerPair() int {
	if c.Proxied() {
		return c.CallsPerConnection()
	}
	pairs := max(c.IndependentPairs(), 1)
	return c.InFlight * ((c.TotalClients() + pairs - 1) / pairs)
}
