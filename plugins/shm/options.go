package shm

import (
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/transport"
)

const name = "shm"

// schema lists the options.
var schema = []transport.Option{
	{
		Name: "ring", Type: transport.TypeString, Default: inbox.Auto, Allowed: inbox.Rings(),
		Help: "inplace answers a call in its own slot; the others have a ring for each " +
			"direction and differ in how its two sides learn of each other's progress; auto is " +
			"inplace for one call in flight whose messages fit into two cache lines, onesided " +
			"for one with longer messages, and fastforward for more",
	},
	{
		Name: "slots", Type: transport.TypeInt, Default: "0", Max: inbox.MaxSlots,
		Help: "messages per ring (a power of two), or call slots for inplace; 0 means twice the " +
			"calls in flight and at least 64, or for inplace one more than the calls in flight",
	},
	{
		Name: "arena", Type: transport.TypeSize, Default: "0", Max: 4 * inbox.MaxPayload,
		Help: "bytes per ring (a power of two), or for inplace of all buffers (at least 16 KiB " +
			"per slot), for payloads that do not fit into a slot; 0 derives it from the run's " +
			"payloads and calls in flight",
	},
	{
		Name: "backing", Type: transport.TypeString, Default: string(shm.Memfd),
		Allowed: []string{string(shm.Memfd), string(shm.Named)},
		Help: "memfd leaves nothing behind; use named (/dev/shm) if /proc is closed to " +
			"the peers",
	},
	{
		Name: "hot-rings", Type: transport.TypeInt, Default: "4", Max: inbox.MaxPeers,
		Help: "rings that a worker keeps polling even if they are idle; peers with other idle " +
			"rings must notify it",
	},
}

// resolve combines the options with the counts of a run.
func resolve(cfg transport.Config) inbox.Config {
	return inbox.Config{
		Name:     name,
		Ring:     cfg.Options.String("ring"),
		Slots:    cfg.Options.Int("slots"),
		Arena:    cfg.Options.Size("arena"),
		Backing:  shm.Backing(cfg.Options.String("backing")),
		HotRings: cfg.Options.Int("hot-rings"),
		Workers:  cfg.Workers, Peers: cfg.Peers, InFlight: cfg.InFlight, MaxPayload: cfg.MaxPayload,
	}
}
