package rank

import (
	"context"

	"transportbench/core/base/config"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/transport"
)

// linkName names the links in errors.
const linkName = "link"

// hotLinks is how many of its clients a daemon looks at in every turn, however
// idle they are; the others ring its bell.
const hotLinks = 4

// openLinks opens what carries the requests of a rank's clients to its daemons
// in mesh-proxied: shared memory, the same for every transport. Each client is
// linked to each daemon. The workers of clients come after those of daemons.
func openLinks(cfg config.Config) (*inbox.Transport, error) {
	return inbox.Open(inbox.Config{
		Name: linkName, Ring: inbox.Auto, Backing: shm.Memfd, HotRings: hotLinks,
		Workers: cfg.Daemons + cfg.Clients, Peers: max(cfg.Daemons, cfg.Clients),
		InFlight: cfg.InFlight, MaxPayload: cfg.LargestMessage(),
	})
}

// link connects the clients of mesh-proxied to the daemons of their rank.
func (r *Rank) link(ctx context.Context) error {
	if r.links == nil {
		return nil
	}
	cfg := r.plan.Config
	traces := make([]*trace, cfg.Clients)
	for i := range traces {
		traces[i] = &trace{}
	}
	daemons, clients := r.threads[:cfg.Daemons], r.threads[cfg.Daemons:]
	for i, d := range daemons {
		err := d.do(ctx, func() error {
			worker, err := r.links.NewWorker(i)
			if err != nil {
				return err
			}
			d.daemon.proxy = newProxy(r.wiring(), worker, traces)
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
			c.client.trace = traces[j]
			for i, d := range daemons {
				if err := c.worker.Connect(ctx, transport.PeerID(i), d.daemon.proxy.links.Address()); err != nil {
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
