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
			return &RankError{r, "prepare", fmt.Errorf("it opened provider %q, but rank 0 opened %q; choose one with --set provider=...",
				p.Properties.Provider, prepared[0].Properties.Provider)}
		}
		if err := checkLimits(cfg, p.Properties.Limits); err != nil {
			return err
		}
		if cfg.Idle == config.IdlePark && !p.Waits {
			return &config.Error{Option: "idle", Problem: fmt.Sprintf(
				"transport %s cannot park a thread; use --idle auto, spin or yield", cfg.Transport)}
		}
	}
	return nil
}

// checkLimits compares cfg with the limits of an open transport; a limit of 0 is unlimited.
func checkLimits(cfg config.Config, limits transport.Limits) error {
	size := cfg.ValueSize.Max()
	if most := limits.MaxPayload; most > 0 && config.MessageHeader+size > most {
		return &config.Error{Option: "value-size", Problem: fmt.Sprintf(
			"values of %s make messages of %d bytes, but transport %s takes at most %d in this configuration; use --value-size %d or less",
			config.Size(size), config.MessageHeader+size, cfg.Transport, most, max(0, most-config.MessageHeader))}
	}
	if most, open := limits.InFlight, cfg.CallsPerConnection(); most > 0 && open > most {
		what, remedy := fmt.Sprintf("%d calls in flight", open), fmt.Sprintf("use --in-flight %d or less", most)
		if cfg.Proxied() {
			what = fmt.Sprintf("%d clients with %d calls in flight each share a connection", cfg.Clients, cfg.InFlight)
			remedy = "use fewer clients, or fewer calls in flight"
		}
		return &config.Error{Option: "in-flight", Problem: fmt.Sprintf(
			"%s, but transport %s takes %d on a connection; %s", what, cfg.Transport, most, remedy)}
	}
	for _, p := range peersOf(cfg) {
		if most := limits.Peers; most > 0 && p.count > most {
			return &config.Error{Option: p.option, Problem: fmt.Sprintf(
				"%s, but transport %s takes %d connections a worker; use fewer %s", p.what, cfg.Transport, most, p.fewer)}
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
		return []connections{{"ranks", fmt.Sprintf("each daemon would have %d other ranks", others), "ranks", others}}
	}
	clients, daemons := cfg.CallingRanks()*cfg.Clients, cfg.ServingRanks()*cfg.Daemons
	return []connections{
		{"clients", fmt.Sprintf("each daemon would have %d clients", clients), "ranks or clients", clients},
		{"daemons", fmt.Sprintf("each client would have %d daemons", daemons), "ranks or daemons", daemons},
	}
}

// Estimates of memory in bytes.
const (
	// processMemory is the resident memory of a rank before any load: the Go runtime, the program
	// and the control plane.
	processMemory = 24 << 20
	// histogramMemory is one histogram of core/base/record; each thread has about
	// histogramsPerThread.
	histogramMemory     = 220 << 10
	histogramsPerThread = 6
	// connectionMemory is what a transport allocates for a peer, without payloads.
	connectionMemory = 64 << 10
)

// need is a part of a run's memory and the option that determines it.
type need struct {
	option string
	bytes  float64
}

// memoryNeeds estimates the memory of all ranks together.
func memoryNeeds(cfg config.Config) []need {
	daemons, clients := float64(cfg.ServingRanks()*cfg.Daemons), float64(cfg.CallingRanks()*cfg.Clients)
	message := float64(cfg.LargestMessage())
	requests, _ := cfg.Requests()
	stored := cfg.TotalKeys()
	if cfg.Service != config.ServiceStore {
		stored = 0
	}
	connections := daemons * clients
	if cfg.Proxied() {
		connections = daemons * float64(cfg.Ranks-1)
	}
	return []need{
		{"ranks", float64(cfg.Ranks)*processMemory + (daemons+clients)*histogramsPerThread*histogramMemory + connections*connectionMemory},
		{"keys", float64(stored) * message}, // unused slots have no pages
		{"in-flight", clients * float64(requests) * message},
	}
}

// checkMemory returns an error if the run needs more than the available memory in bytes; 0 is
// unknown.
func checkMemory(cfg config.Config, available uint64) error {
	total, largest := 0.0, need{}
	for _, n := range memoryNeeds(cfg) {
		total += n.bytes
		if n.bytes > largest.bytes {
			largest = n
		}
	}
	if available == 0 || total <= float64(available) {
		return nil
	}
	const gib = 1 << 30
	remedy := map[string]string{
		"ranks":     "use fewer ranks, daemons or clients",
		"keys":      "use fewer keys or smaller values",
		"in-flight": "use fewer clients, fewer calls in flight or smaller values",
	}[largest.option]
	return &config.Error{Option: largest.option, Problem: fmt.Sprintf(
		"the run needs about %.1f GiB of memory, but only %.1f GiB are available; %s", total/gib, float64(available)/gib, remedy)}
}
