package config

// The topologies: which ranks serve, which call, and over what.
const (
	// TopologyClientServer: rank 0 serves, and the clients of the others call
	// it over the transport.
	TopologyClientServer = "client-server"
	// TopologyMeshDirect: every rank serves and calls; a client calls the
	// daemons of all ranks, its own included, over the transport.
	TopologyMeshDirect = "mesh-direct"
	// TopologyMeshProxied: every rank serves and calls; a client calls a daemon
	// of its own rank over shared memory, which answers for the keys that the
	// rank owns and forwards the others over the transport.
	TopologyMeshProxied = "mesh-proxied"
)

func topologies() []string {
	return []string{TopologyClientServer, TopologyMeshDirect, TopologyMeshProxied}
}

// Mesh says whether every rank serves and calls.
func (c *Config) Mesh() bool { return c.Topology != TopologyClientServer }

// Proxied says whether clients reach the transport through their own rank's
// daemons.
func (c *Config) Proxied() bool { return c.Topology == TopologyMeshProxied }

// Serves says whether a rank has daemons.
func (c *Config) Serves(rank int) bool { return c.Mesh() || rank == 0 }

// Calls says whether a rank has clients.
func (c *Config) Calls(rank int) bool { return c.Mesh() || rank > 0 }

// ServingRanks is how many ranks have daemons. They are the first ones.
func (c *Config) ServingRanks() int {
	if c.Mesh() {
		return c.Ranks
	}
	return 1
}

// CallingRanks is how many ranks have clients.
func (c *Config) CallingRanks() int {
	if c.Mesh() {
		return c.Ranks
	}
	return c.Ranks - 1
}

// CallerNumber counts the calling ranks from 0.
func (c *Config) CallerNumber(rank int) int {
	if c.Mesh() {
		return rank
	}
	return rank - 1
}

// Threads are the polling threads of a rank, daemons and clients.
func (c *Config) Threads(rank int) (daemons, clients int) {
	if c.Serves(rank) {
		daemons = c.Daemons
	}
	if c.Calls(rank) {
		clients = c.Clients
	}
	return daemons, clients
}

// TotalKeys is the number of distinct keys over all serving ranks.
func (c *Config) TotalKeys() int { return c.Keys * c.ServingRanks() }

// TotalClients is the number of clients over all calling ranks.
func (c *Config) TotalClients() int { return c.Clients * c.CallingRanks() }

// CallsPerConnection is the most calls in flight on one connection of the
// transport: a client's, or in mesh-proxied those of all clients of a rank.
func (c *Config) CallsPerConnection() int {
	if c.Proxied() {
		return c.Clients * c.InFlight
	}
	return c.InFlight
}
