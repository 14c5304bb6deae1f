package rank

import (
	"context"

	"transportbench/core/base/config"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
	"transportbench/core/transport"
)

// openSiblings opens the shared memory between the daemons of a rank, the same for every transport.
func openSiblings(w wiring.Wiring) (*inbox.Transport, error) {
	return inbox.Open(inbox.Config{
		Name: "sibling", Ring: inbox.Auto, Backing: shm.Memfd, HotRings: hotLinks,
		Workers: w.Config.Daemons, Peers: w.Config.Daemons,
		InFlight: w.OpenCalls(), MaxPayload: w.Config.LargestMessage(),
	})
}

// connectSiblings connects the daemons of a rank that delegate with each other.
func (r *Rank) connectSiblings(ctx context.Context) error {
	if r.siblings == nil {
		return nil
	}
	w := r.wiring()
	daemons, _ := w.Config.Threads(w.Rank)
	all := r.threads[:daemons]
	siblings := make([]transport.Worker, daemons)
	err := eachOf(ctx, all, func(t *thread) error {
		worker, err := r.siblings.NewWorker(t.id.Daemon)
		if err != nil {
			return err
		}
		siblings[t.id.Daemon] = worker
		return t.daemon.Delegate(w, t.id.Daemon, worker)
	})
	if err != nil {
		return err
	}
	return eachOf(ctx, all, func(t *thread) error {
		for i, sibling := range all {
			if sibling == t {
				continue
			}
			if err := siblings[t.id.Daemon].Connect(ctx, transport.PeerID(i),
				siblings[i].Address()); err != nil {
				return err
			}
		}
		return nil
	})
}

// linkName is the name of the links in errors.
const linkName = "link"

// hotLinks is the number of idle links that a daemon still polls in every iteration; the other
// clients notify it.
const hotLinks = 4

// openLinks opens the links of mesh-proxied: shared memory between each client and each daemon
// of a rank, the same for every transport. The daemons have the first worker indices.
func openLinks(cfg config.Config) (*inbox.Transport, error) {
	hot := hotLinks
	if cfg.FullScan {
		hot = cfg.Clients
	}
	return inbox.Open(inbox.Config{
		Name: linkName, Ring: inbox.Auto, Backing: shm.Memfd, HotRings: hot,
		Workers: cfg.Daemons + cfg.Clients, Peers: max(cfg.Daemons, cfg.Clients),
		InFlight: cfg.InFlight, MaxPayload: cfg.LargestMessage(),
	})
}

// connectLinks connects the clients of mesh-proxied to the daemons of their rank.
func (r *Rank) connectLinks(ctx context.Context) error {
	if r.links == nil {
		return nil
	}
	cfg := r.plan.Config
	traces := make([]*loop.LinkTrace, cfg.Clients)
	for i := range traces {
		traces[i] = &loop.LinkTrace{}
	}
	daemons, clients := r.threads[:cfg.Daemons], r.threads[cfg.Daemons:]
	links := make([]transport.Worker, len(daemons)) // of the daemons
	for i, d := range daemons {
		err := d.do(ctx, func() error {
			worker, err := r.links.NewWorker(i)
			if err != nil {
				return err
			}
			links[i] = worker
			if err := d.daemon.ServeLinks(r.wiring(), worker, traces); err != nil {
				return err
			}
			for j, c := range clients {
				if err := worker.Connect(ctx, transport.PeerID(j), c.worker.Address()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for j, c := range clients {
		err := c.do(ctx, func() error {
			c.client.TraceLinks(traces[j])
			for i := range daemons {
				err := c.worker.Connect(ctx, transport.PeerID(i), links[i].Address())
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
