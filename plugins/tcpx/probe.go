package tcpx

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/sock"
)

var _ transport.Prober = (*worker)(nil)

// Probe implements [transport.Prober]. It dials separate sockets: as many as a connection has for
// data, with the same settings. Half of the time it measures round trips, and half
// a stream from the source that the option source asks for.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, probe transport.Probe) (transport.Floor, error) {
	p := w.peers.Get(id)
	return name.Probe(id, w.closed, p != nil && p.state != lost, func() (reading transport.Floor, err error) {
		if probe.Kind != transport.ProbeMedium {
			return reading, transport.ErrUnsupported
		}
		if probe.Initiate {
			reading, err = p.lead(ctx, probe.Duration)
		} else {
			err = p.follow(ctx)
		}
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return reading, err
	})
}

// lead dials the sockets and measures.
func (p *peer) lead(ctx context.Context, d time.Duration) (reading transport.Floor, err error) {
	stopped, release := stoppedBy(ctx)
	defer release()
	w, s := p.w, p.w.settings
	if w.source == nil {
		if w.source, err = newSource(); err != nil {
			return reading, err
		}
	}
	var fds []int
	defer func() { err = errors.Join(err, sock.CloseAll(fds)) }()
	for i := range s.sockets {
		fd, err := s.sock.Dial(p.address.At)
		if err != nil {
			return reading, err
		}
		fds = append(fds, fd)
		h := hello{To: nonce(p.address.Nonce), From: w.nonce, Use: uint8(useProbe - i)}
		if err := rawExchange(stopped, fd, h.encode(), sendHello); err != nil {
			return reading, err
		}
	}
	f, err := rawLead(ctx, fds, s, w.source, d)
	return f.Floor, err
}

// sendHello is sock.SendBytes on a socket that may not be connected yet.
func sendHello(fd int, b []byte) (int, error) {
	n, err := sock.SendBytes(fd, b)
	if err == unix.ENOTCONN {
		err = nil
	}
	return n, err
}

// follow waits for the sockets and answers. If the peer gave a probe up, its sockets have
// ended, and follow waits for new ones.
func (p *peer) follow(ctx context.Context) error {
	stopped, release := stoppedBy(ctx)
	defer release()
	for spins := 0; ; {
		for !p.allProbes() {
			p.w.connect()
			if err := yieldWhenIdle(stopped, &spins, true); err != nil {
				return err
			}
			runtime.Gosched()
		}
		_, err := rawFollow(ctx, p.probes, p.w.settings)
		p.dropProbes()
		if err != sock.ErrClosed && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
			return err
		}
	}
}

// allProbes reports whether all sockets of a probe have come.
func (p *peer) allProbes() bool {
	all := true
	for i, fd := range p.probes {
		if fd >= 0 && sock.Peek(fd) != nil {
			_ = unix.Close(fd)
			p.probes[i] = -1
		}
		all = all && p.probes[i] >= 0
	}
	return all
}

// dropProbes closes the sockets of a probe.
func (p *peer) dropProbes() {
	for i, fd := range p.probes {
		if fd >= 0 {
			_ = unix.Close(fd)
			p.probes[i] = -1
		}
	}
}
