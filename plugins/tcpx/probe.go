package tcpx

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

var _ transport.Prober = (*worker)(nil)

// Probe implements [transport.Prober], on sockets of its own: as many as a connection
// has for data, with the same settings. Round trips take half of the time, and a
// stream from a source of the footprint that the options ask for the other half.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, initiate bool, d time.Duration) (reading transport.Floor, err error) {
	if w.closed {
		return reading, opError("probe", id, transport.ErrClosed)
	}
	if int(id) >= len(w.peers) || w.peers[id] == nil || w.peers[id].state == lost {
		return reading, opError("probe", id, transport.ErrPeerDown)
	}
	p := w.peers[id]
	if initiate {
		reading, err = p.lead(ctx, d)
	} else {
		err = p.follow(ctx)
	}
	if err == nil {
		return reading, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return transport.Floor{}, opError("probe", id, fmt.Errorf("the peer does not take part: %w", err))
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
	defer func() { err = errors.Join(err, closeAll(fds)) }()
	for i := range s.sockets {
		fd, err := s.dial(p.address.At)
		if err != nil {
			return reading, err
		}
		fds = append(fds, fd)
		h := hello{caller: [nonceSize]byte(w.nonce), use: uint8(useProbe - i)}
		if err := rawExchange(stopped, fd, h.encode(p.address.Nonce), sendHello); err != nil {
			return reading, err
		}
	}
	f, err := rawLead(ctx, fds, s, w.source, d)
	return f.Floor, err
}

// sendHello is sendBytes on a socket that may not be connected yet.
func sendHello(fd int, b []byte) (int, error) {
	n, err := sendBytes(fd, b)
	if err == unix.ENOTCONN {
		err = nil
	}
	return n, err
}

// follow waits for the sockets and answers. Those of a probe that was given up have
// ended, and new ones take their place.
func (p *peer) follow(ctx context.Context) error {
	stopped, release := stoppedBy(ctx)
	defer release()
	for spins := 0; ; {
		for !p.allProbes() {
			p.w.connect()
			if err := rest(stopped, &spins, true); err != nil {
				return err
			}
			runtime.Gosched()
		}
		_, err := rawFollow(ctx, p.probes, p.w.settings)
		p.dropProbes()
		if err != errSocketClosed && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
			return err
		}
	}
}

// allProbes says whether all sockets of a probe are there.
func (p *peer) allProbes() bool {
	all := true
	for i, fd := range p.probes {
		if fd >= 0 && peek(fd) != nil {
			_ = unix.Close(fd)
			p.probes[i] = -1
		}
		all = all && p.probes[i] >= 0
	}
	return all
}

func (p *peer) dropProbes() {
	for i, fd := range p.probes {
		if fd >= 0 {
			_ = unix.Close(fd)
			p.probes[i] = -1
		}
	}
}
