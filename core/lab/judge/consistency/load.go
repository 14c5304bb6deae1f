package consistency

import (
	"strconv"

	"transportbench/core/base/config"
)

// Load has the parts of a configuration that the rules use. 0 means unknown, and rules that need the
// field do not apply.
type Load struct {
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

// LoadOf returns the load of a configuration.
func LoadOf(c *config.Config) Load {
	l := Load{
		Clients: c.TotalClients(), Threads: c.TotalClients() + c.ServingRanks()*c.Daemons,
		MaxValue: c.ValueSize.Max(), Pattern: c.Pattern, TokensPerBlock: c.TokensPerBlock,
		RemoteShare: -1,
	}
	if c.Rate == 0 && len(c.Classes) == 0 {
		l.InFlight = l.Clients * c.InFlight
	}
	if c.Mesh() && c.RemoteShare != config.ByHash {
		l.RemoteShare = float64(c.RemoteShare)
	}
	return l
}

// LoadOfText is [LoadOf] for options as text, some of which may be missing. Without a topology, all
// ranks call. Clients are per rank, and missing counts are 1.
func LoadOfText(options map[string]string) Load {
	l := Load{MaxValue: -1, RemoteShare: -1}
	number := func(name string) int {
		n, _ := strconv.Atoi(options[name])
		return n
	}
	calling := max(number("ranks"), 1)
	switch options["topology"] {
	case config.TopologyClientServer:
		calling = max(calling-1, 1)
		l.Threads = max(number("daemons"), 1)
	case config.TopologyMeshDirect, config.TopologyMeshProxied:
		l.Threads = calling * max(number("daemons"), 1)
	}
	l.Clients = calling * max(number("clients"), 1)
	if l.Threads > 0 {
		l.Threads += l.Clients
	}
	if rate := options["rate"]; rate == "" || rate == "0" {
		l.InFlight = l.Clients * number("in_flight")
	}
	var size config.Sizes
	if text, has := options["value_size"]; has && size.Set(text) == nil {
		l.MaxValue = size.Max()
	}
	_ = l.Pattern.Set(options["pattern"]) // stays empty if invalid
	l.TokensPerBlock = number("tokens_per_block")
	if share, err := strconv.ParseFloat(options["remote_share"], 64); err == nil && share >= 0 && share <= 1 {
		l.RemoteShare = share
	}
	return l
}
