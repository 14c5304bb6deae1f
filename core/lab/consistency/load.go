package consistency

import (
	"strconv"

	"transportbench/core/base/config"
)

// Load is what of a configuration its figures depend on. What is 0 is not
// known, and rules that need it are passed over.
type Load struct {
	// InFlight is the calls that all clients together keep in flight, 0 in an
	// open loop.
	InFlight int
	// Clients, over all ranks.
	Clients int
	// Threads are those that poll: daemons and clients of all ranks.
	Threads int
	// MaxValue is the longest value in bytes, -1 where that is not known.
	MaxValue int
	Pattern  config.Pattern
	// TokensPerBlock is how many tokens a value stands for.
	TokensPerBlock int
	// RemoteShare is the share of requests to other ranks; -1 where that is not
	// known, or there are no others.
	RemoteShare float64
}

// LoadOf takes a load from a configuration.
func LoadOf(c *config.Config) Load {
	l := Load{
		Clients: c.TotalClients(), Threads: c.TotalClients() + c.ServingRanks()*c.Daemons,
		MaxValue: c.ValueSize.Max(), Pattern: c.Pattern, TokensPerBlock: c.TokensPerBlock,
		RemoteShare: -1,
	}
	if c.Rate == 0 {
		l.InFlight = l.Clients * c.InFlight
	}
	if c.Mesh() && c.RemoteShare != config.ByHash {
		l.RemoteShare = float64(c.RemoteShare)
	}
	return l
}

// LoadOfText is [LoadOf] of options as text, of which some may be missing: in
// figures of others, clients are those of one rank, all ranks call, and what is
// not said is one.
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
	_ = l.Pattern.Set(options["pattern"]) // none where it is none
	l.TokensPerBlock = number("tokens_per_block")
	if share, err := strconv.ParseFloat(options["remote_share"], 64); err == nil && share >= 0 && share <= 1 {
		l.RemoteShare = share
	}
	return l
}
