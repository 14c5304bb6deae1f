package tcpx

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/sock"
	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

var _ transport.Prober = (*worker)(nil)

// Probe implements [transport.Prober] over a socket of its own with the settings of the others.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, probe transport.Probe) (transport.Floor, error) {
	p := w.peers.Get(id)
	return name.Probe(id, w.closed, p != nil && p.state != lost, func() (reading transport.Floor, err error) {
		if probe.Kind != transport.ProbeMedium && probe.Kind != transport.ProbeRate {
			return reading, transport.ErrUnsupported
		}
		if probe.Initiate {
			reading, err = p.lead(ctx, probe)
		} else {
			err = p.follow(ctx, probe)
		}
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return reading, err
	})
}

// lead dials the socket and measures.
func (p *peer) lead(ctx context.Context, probe transport.Probe) (reading transport.Floor, err error) {
	stopped, release := stoppedBy(ctx)
	defer release()
	fd, err := p.w.settings.sock.Dial(p.address.At)
	if err != nil {
		return reading, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	h := hello{To: nonce(p.address.Nonce), From: p.w.nonce, Use: useProbe}
	if h.Port, err = sock.LocalPort(fd); err != nil {
		return reading, err
	}
	if err := rawExchange(stopped, fd, h.encode(), sendHello); err != nil {
		return reading, err
	}
	return floor.ProbeStream(ctx, fd, probe)
}

// sendHello is sock.SendBytes on a socket that may not be connected yet.
func sendHello(fd int, b []byte) (int, error) {
	n, err := sock.SendBytes(fd, b)
	if err == unix.ENOTCONN {
		err = nil
	}
	return n, err
}

// follow waits for the socket and answers. If the peer gave a probe up, its socket has ended, and
// follow waits for a new one.
func (p *peer) follow(ctx context.Context, probe transport.Probe) error {
	stopped, release := stoppedBy(ctx)
	defer release()
	for {
		for wait := (spin.Wait{}); !p.hasProbe(); {
			p.w.connect()
			if err := stepped(stopped, &wait, true); err != nil {
				return err
			}
		}
		_, err := floor.ProbeStream(ctx, p.probe, probe)
		p.dropProbe()
		if !errors.Is(err, floor.ErrStreamEnded) && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
			return err
		}
	}
}

// hasProbe reports whether the socket of a probe has come and has not ended.
func (p *peer) hasProbe() bool {
	if p.probe >= 0 && sock.Peek(p.probe) != nil {
		p.dropProbe()
	}
	return p.probe >= 0
}

// dropProbe closes the socket of a probe.
func (p *peer) dropProbe() {
	if p.probe >= 0 {
		_ = unix.Close(p.probe)
		p.probe = -1
	}
}
