package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment"
	"transportbench/core/plugin"
)

// The load of a setup between hosts. Its first calls are made at the start of the warm-up.
const (
	setupWarmup = "50ms"
	setupWindow = "10ms"
)

// between is the setup between two hosts.
type between struct {
	*session
	micro *micro
	own   map[string]string // the transport's options, checked
}

// joinSetup waits for the two hosts of a setup, if the settings ask for hosts. There is no cluster if they do
// not.
func (c *micro) joinSetup(ctx context.Context) (*between, error) {
	b := &between{session: &session{app: c.app, settings: c.settings, stateOnly: true}, micro: c}
	if err := b.join(ctx); err != nil || b.cluster == nil {
		return b, err
	}
	switch n := len(b.cluster.agents); {
	case n != 2:
		return b, usagef("micro %s %s is between two hosts, and %d joined", c.entry.Name, plugin.MicroSetup, n)
	case c.cpus != "":
		return b, usagef("--cpus is for one host; use taskset for the agents")
	}
	if _, err := b.onHosts(ctx)([]*entry{c.entry}, nil); err != nil {
		return b, err
	}
	if reason := c.entry.unavailable(); reason != "" {
		return b, fmt.Errorf("%s: %s", c.entry.Name, reason)
	}
	set, err := checkSet([]*entry{c.entry}, c.settings.Set, config.TrackShipped)
	b.own = set[c.entry.Name]
	return b, err
}

// repeat takes the rounds of each number of connections, as the plugin does on one host.
func (b *between) repeat(ctx context.Context) error {
	c := b.micro
	p, err := b.plugin(c.entry)
	if err != nil {
		return err
	}
	l, err := p.Launcher(b.stderr, b.settings.AllowMixed)
	if err != nil {
		return err
	}
	before := len(c.rounds)
	for _, n := range c.request.Connections {
		cfg, err := b.config(n)
		if err != nil {
			return err
		}
		began := time.Now()
		for round := 0; round < plugin.LeastRounds || round < plugin.MostRounds && time.Since(began) < c.request.Duration; round++ {
			r, err := b.engine.Run(ctx, experiment.Run{Plugin: p, Config: cfg, Launcher: l}, nil)
			if err != nil {
				return fmt.Errorf("%s: round %d with %d connections: %w", plugin.MicroSetup, round+1, n, err)
			}
			if len(r.Setup.Ranks) != cfg.Ranks {
				return fmt.Errorf("plugin %s does not say what its setup takes", c.entry.Name)
			}
			c.rounds = append(c.rounds, &plugin.SetupReading{RankSetup: r.Setup.Ranks[1], CloseNS: uint64(r.Setup.CloseMS * float64(time.Millisecond))})
		}
	}
	if c.set == nil {
		return nil
	}
	return c.addSetups(c.rounds[before:], b.engine.Environment)
}

// config returns the load of a round: the second rank calls the first one, with that many connections.
func (b *between) config(connections int) (config.Config, error) {
	servers, clients := plugin.Grid(connections)
	if clients > config.MaxThreads {
		return config.Config{}, usagef("--connections: %d between hosts take %d threads, and a rank has %d at most; choose a number such as 100 = 10 x 10",
			connections, clients, config.MaxThreads)
	}
	cfg, _, err := config.Resolve(config.Layer{Values: map[string]string{
		"profile": "echo", "ranks": "2", "daemons": strconv.Itoa(servers), "clients": strconv.Itoa(clients),
		"value-size": strconv.Itoa(plugin.SetupPayload), "warmup": setupWarmup, "duration": setupWindow, "repeats": "1",
		"idle": config.IdleYield, // many connections take more threads than processors
	}})
	cfg.Transport, cfg.Options = b.micro.entry.Name, b.own
	return cfg, err
}
