package consistency

import (
	"transportbench/core/base/config"
	"transportbench/core/lab/store/set"
)

// load has the parts of a configuration that the rules use. 0 means unknown, and rules that need
// the field do not apply.
type load struct {
	InFlight int // calls that all clients together keep in flight; 0 in an open loop
	Clients  int // of all ranks
	Threads  int // polling threads: daemons and clients of all ranks
	MaxValue int // length of the longest value in bytes; -1 if unknown
	Pattern  config.Pattern
	// TokensPerBlock is the number of tokens of one value.
	TokensPerBlock int
	// RemoteShare is the share of requests to other ranks; -1 if unknown or if there is one rank.
	RemoteShare float64
}

// loadOf returns the load of published figures, which have only some options. Without a topology,
// all ranks call. Clients are per rank, and missing counts are 1. An option that cannot be parsed
// counts as missing; if there are several, the error names one.
func loadOf(options map[string]string) (load, error) {
	c := config.Config{Topology: config.TopologyMeshDirect, Ranks: 1, Daemons: 1, Clients: 1,
		RemoteShare: config.ByHash}
	if options["topology"] == config.TopologyClientServer {
		c.Ranks = 2
	}
	err := set.ParseOptions(&c, options, nil)
	l := load{
		Clients: c.TotalClients(), MaxValue: c.ValueSize.Max(), Pattern: c.Pattern,
		TokensPerBlock: c.TokensPerBlock, RemoteShare: -1,
	}
	if options["topology"] != "" {
		l.Threads = l.Clients + c.ServingRanks()*c.Daemons
	}
	if c.Load() == config.LoadClosed {
		l.InFlight = l.Clients * c.InFlight
	}
	if c.Mesh() && c.RemoteShare != config.ByHash {
		l.RemoteShare = float64(c.RemoteShare)
	}
	if l.MaxValue == 0 {
		l.MaxValue = -1
	}
	return l, err
}
