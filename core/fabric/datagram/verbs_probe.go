package datagram

import (
	"context"
	"errors"
	"fmt"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

var _ Prober = (*Verbs)(nil)

// Probe implements [Prober] on queue pairs of its own, so that its datagrams do not mix with those
// of the port.
func (p *Verbs) Probe(ctx context.Context, to Remote, probe transport.Probe) (transport.Floor,
	error) {
	if p.closed {
		return transport.Floor{}, ErrClosed
	}
	remote, err := p.probe.Open(p.remotes[to].probe)
	if err != nil {
		return transport.Floor{}, fmt.Errorf("opening the remote's probe port: %w", err)
	}
	defer p.probe.Release(remote)
	err = p.probe.openLoop()
	switch {
	case err == nil:
		return p.probe.loop.Probe(ctx, p.probe.remotes[remote].handle, probe, p.probe.checkLoop)
	case !errors.Is(err, transport.ErrUnsupported):
		return transport.Floor{}, err
	}
	o := &p.probe.options
	maximum := o.ReceiveDepth*o.MTU - transport.ProbeHeader
	if max(probe.Forth, probe.Back) > maximum {
		return transport.Floor{},
			fmt.Errorf("%w: payloads of %d and %d bytes; a probe of this queue pair has at most %d",
				transport.ErrUnsupported, probe.Forth, probe.Back, maximum)
	}
	f, err := probePort(ctx, p.probe, remote, probe, &p.probed)
	switch {
	case f.RoundTrip > 0:
		f.Name = "UD ping-pong"
	case f.PerOp > 0:
		f.Name = "UD stream"
	}
	return f, err
}

// openLoop makes the loop of a probe's port, which then has the queue pair to itself. It returns
// transport.ErrUnsupported for the soft device.
func (p *Verbs) openLoop() (err error) {
	if p.loop != nil {
		return nil
	}
	o := &p.options
	p.loop, err = rdma.NewLoop(p.qp, rdma.LoopConfig{
		Name: "UD",
		Send: rdma.SendRequest{Opcode: rdma.SendWithImmediate, Local: p.region.Address,
			LocalKey: p.region.LocalKey},
		// More datagrams in flight would find no receive.
		Receive: p.receiveInto(0), Stride: p.stride, MTU: o.MTU,
		Depth: o.SendDepth, Window: max(o.ReceiveDepth/2, 1), MaxMessage: o.ReceiveDepth * o.MTU,
	})
	return err
}

// checkLoop handles completions that the loop has left or that came after it.
func (p *Verbs) checkLoop() error {
	for r := &p.receive; p.poll() > 0; {
		for ; r.head != r.tail; r.head++ { // too late for the probe
			r.free = append(r.free, p.receiveInto(r.arrived[r.head%uint64(len(r.arrived))].buffer))
		}
		p.fail(p.postReceives())
	}
	return p.failed
}
