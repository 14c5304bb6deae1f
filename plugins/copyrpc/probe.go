package copyrpc

import (
	"context"
	"fmt"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// Probe implements [transport.Prober] with RDMA WRITEs with immediate, as batches are written, on
// the connection's own queue pair. Of the soft device, whose medium is memory, the runtime measures
// the floors itself.
func (w *worker) Probe(ctx context.Context, id transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	if w.endpoint.device.Attributes().Provider != rdma.Verbs ||
		probe.Kind != transport.ProbeMedium && probe.Kind != transport.ProbeRate {
		return transport.Floor{}, name.PeerError("probe", id, transport.ErrUnsupported)
	}
	p := w.peers.Get(id)
	var wait spin.Wait
	for ; p != nil && p.state == connecting && !w.peers.Closed(); wait.IdleCall() {
		if err := context.Cause(ctx); err != nil {
			return transport.Floor{}, name.PeerError("probe", id,
				fmt.Errorf("the peer has not connected: %w", err))
		}
		w.manager.progress()
	}
	return name.Probe(id, w.peers.Closed(), p != nil && p.state == up,
		func() (transport.Floor, error) {
			if p.loop == nil {
				loop, err := w.newLoop(p)
				if err != nil {
					return transport.Floor{}, err
				}
				p.loop = loop
			}
			return p.loop.Probe(ctx, 0, probe, func() error { return w.checkConnection(p) })
		})
}

// newLoop makes a peer's loop. It writes to memory at the peer that nothing else uses; what it
// writes comes from the send ring and does not matter.
func (w *worker) newLoop(p *peer) (*rdma.Loop, error) {
	s := &w.settings
	return rdma.NewLoop(p.qp, rdma.LoopConfig{
		Name: "RDMA write",
		Send: rdma.SendRequest{Opcode: rdma.WriteWithImmediate, Local: p.localRing,
			LocalKey: w.region.LocalKey,
			Remote:   p.remoteControl + controlSize, RemoteKey: p.remoteKey},
		// Requests of the transport without a completion may take up to half of the send queue.
		Depth: s.sendDepth / 2, Window: s.batches, MaxMessage: s.payload + transport.ProbeHeader,
	})
}

// checkConnection returns an error if the connection is lost. It also handles datagrams: a
// peer that lost the one that brings its connection up would never take part.
func (w *worker) checkConnection(p *peer) error {
	w.manager.progress()
	if _, err := w.collect(nil, 0); err != nil {
		return err
	}
	if p.state != up {
		return transport.ErrPeerDown
	}
	return nil
}
