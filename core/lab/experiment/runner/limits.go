package runner

import (
	"fmt"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// checkPrepared returns an error if the configuration exceeds what the opened transports can do.
func checkPrepared(cfg config.Config, prepared []record.Prepared) error {
	for r, p := range prepared {
		if p.Properties.Provider != prepared[0].Properties.Provider {
			return &RankError{Rank: r, Op: "prepare",
				Err: fmt.Errorf("it opened provider %q, but rank 0 opened %q; choose one with "+
					"--set provider=...",
					p.Properties.Provider, prepared[0].Properties.Provider)}
		}
		if err := checkLimits(cfg, p.Properties.Limits); err != nil {
			return err
		}
		if cfg.Idle == config.IdlePark && !p.Properties.Capabilities.Waits {
			return &config.Error{Option: "idle", Problem: fmt.Sprintf(
				"transport %s cannot park a thread; use --idle auto, spin or yield", cfg.Transport)}
		}
	}
	return nil
}

// checkLimits compares cfg with the limits of an open transport; a limit of 0 is unlimited.
func checkLimits(cfg config.Config, limits transport.Limits) error {
	size := cfg.ValueSize.Max()
	if limit := limits.MaxPayload; limit > 0 && config.MessageHeader+size > limit {
		return &config.Error{Option: "value-size", Problem: fmt.Sprintf(
			"values of %s make messages of %d bytes, but transport %s takes at most %d in this "+
				"configuration; use --value-size %d or less",
			config.Size(size), config.MessageHeader+size, cfg.Transport, limit,
			max(0, limit-config.MessageHeader))}
	}
	if limit, open := limits.InFlight, cfg.CallsPerConnection(); limit > 0 && open > limit {
		what, remedy := fmt.Sprintf("%d calls in flight", open),
			fmt.Sprintf("use --in-flight %d or less", limit)
		if cfg.Proxied() {
			what = fmt.Sprintf("%d clients with %d calls in flight each share a connection",
				cfg.Clients, cfg.InFlight)
			remedy = "use fewer clients, or fewer calls in flight"
		}
		return &config.Error{Option: "in-flight", Problem: fmt.Sprintf(
			"%s, but transport %s takes %d on a connection; %s", what, cfg.Transport,
			limit, remedy)}
	}
	for _, p := range peersOf(cfg) {
		if limit := limits.Peers; limit > 0 && p.count > limit {
			return &config.Error{Option: p.option, Problem: fmt.Sprintf(
				"%s, but transport %s takes %d connections a worker; use fewer %s", p.what,
				cfg.Transport, limit, p.fewer)}
		}
	}
	return nil
}

// connections counts the connections of one worker, and names the option that sets the count.
type connections struct {
	option, what, fewer string
	count               int
}

// peersOf returns the connections of a worker of each kind.
func peersOf(cfg config.Config) []connections {
	if cfg.Proxied() {
		others := cfg.Ranks - 1
		return []connections{{"ranks", fmt.Sprintf("each daemon would have %d other ranks", others),
			"ranks", others}}
	}
	clients, daemons := cfg.CallingRanks()*cfg.Clients, cfg.ServingRanks()*cfg.Daemons
	return []connections{
		{"clients", fmt.Sprintf("each daemon would have %d clients", clients), "ranks or clients",
			clients},
		{"daemons", fmt.Sprintf("each client would have %d daemons", daemons), "ranks or daemons",
			daemons},
	}
}
