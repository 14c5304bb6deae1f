package sockets

import (
	"context"
	"errors"
	"sync/atomic"

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

// whileIdle calls step until it reports that it is done, and returns early if ctx ends.
func whileIdle(ctx context.Context, step func() (done bool, err error)) error {
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	for wait := (spin.Wait{}); ; wait.IdleCall() {
		if done, err := step(); done || err != nil {
			return err
		}
		if stopped.Load() {
			return context.Cause(ctx)
		}
	}
}

// lead dials the socket and measures.
func (p *peer) lead(ctx context.Context, probe transport.Probe) (reading transport.Floor, err error) {
	fd, greeting, err := p.dialFor(useProbe)
	if err != nil {
		return reading, p.dialError(err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	err = whileIdle(ctx, func() (bool, error) {
		connected, err := sock.Established(fd)
		if err != nil || !connected {
			return false, err
		}
		n, err := sock.SendBytes(fd, greeting)
		greeting = greeting[n:]
		return len(greeting) == 0, err
	})
	if err != nil {
		return reading, err
	}
	return floor.ProbeStream(ctx, fd, probe)
}

// follow waits for the socket and answers. If the peer gave a probe up, its socket has ended, and
// follow waits for a new one.
func (p *peer) follow(ctx context.Context, probe transport.Probe) error {
	for {
		err := whileIdle(ctx, func() (bool, error) {
			if p.hasProbe() {
				return true, nil
			}
			p.w.connect()
			return false, nil
		})
		if err != nil {
			return err
		}
		_, err = floor.ProbeStream(ctx, p.probe, probe)
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
