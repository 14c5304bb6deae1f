package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	gogrpc "google.golang.org/grpc"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

var _ transport.Prober = (*worker)(nil)

// pings holds the state of a follower during probes of the library.
type pings struct {
	sessions chan *session
	answer   atomic.Pointer[slot] // to unary pings
}

func newPings() pings { return pings{sessions: make(chan *session)} }

// session is one probe: the follower passes it to the handler of the initiator's stream.
type session struct {
	back  *slot     // the answer to each message
	whole chan bool // the handler's result: true if the initiator has ended the probe
}

// Probe implements [transport.Prober]. The library is grpc-go: round trips of messages of the run's
// sizes, over a connection with the run's options, between the initiator's goroutine and a handler,
// without the rings and goroutines of this package.
func (w *worker) Probe(ctx context.Context, id transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	p := w.peers.Get(id)
	return name.Probe(id, w.peers.Closed(), p != nil && p.state == peerUp,
		func() (transport.Floor, error) {
			switch {
			case probe.Kind != transport.ProbeLibrary:
				return w.probes.Probe(ctx, p.address.Probe, probe)
			case max(probe.Forth, probe.Back) > w.settings.payload ||
				min(probe.Forth, probe.Back) < 0:
				return transport.Floor{}, transport.ErrUnsupported
			case probe.Initiate:
				return w.lead(ctx, p, probe)
			default:
				return transport.Floor{}, w.follow(ctx, probe.Back)
			}
		})
}

// warmups is how many of the first round trips are dropped, for at most a quarter of the time,
// because grpc-go's windows and pools adapt first.
const warmups = 100

// lead measures round trips over a connection of its own.
func (w *worker) lead(ctx context.Context, p *peer, probe transport.Probe) (transport.Floor,
	error) {
	client, err := w.dial(p.address, func(ctx context.Context) (net.Conn, error) {
		return dialSocket(ctx, w.settings.network, p.address.At)
	})
	if err != nil {
		return transport.Floor{}, err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := client.NewStream(ctx, &probeDesc, probeMethod, gogrpc.WaitForReady(true))
	if err != nil {
		return transport.Floor{}, err
	}
	ping := func(out *slot, in *message) error {
		if err := s.SendMsg(out); err != nil {
			return err
		}
		return s.RecvMsg(in)
	}
	what := "stream"
	if err := ping(new(slot), new(message)); err != nil { // waits for the follower
		return transport.Floor{}, err
	}
	if w.settings.unary {
		what = "unary"
		ping = func(out *slot, in *message) error { return client.Invoke(ctx, pingMethod, out, in) }
	}
	var times []float64
	out := &slot{}
	out.fill(0, 0, make([]byte, probe.Forth))
	began := time.Now()
	for before, n := began, 0; len(times) == 0 || before.Sub(began) < probe.Duration; n++ {
		in := newMessage(p, kindReply)
		if err := ping(out, in); err != nil {
			return transport.Floor{}, err
		}
		if len(in.bytes) != probe.Back {
			return transport.Floor{}, fmt.Errorf("%w: an answer of %d bytes", errFrame,
				len(in.bytes))
		}
		in.release()
		now := time.Now()
		if n >= warmups || before.Sub(began) > probe.Duration/4 {
			times = append(times, float64(now.Sub(before)))
		}
		before = now
	}
	err = s.CloseSend()
	if err == nil { // the follower has seen the end
		if err = s.RecvMsg(new(message)); err != nil {
			err = nil
		}
	}
	return transport.Floor{Name: "grpc-go " + what + " ping-pong over " + w.settings.network,
		RoundTrip: floor.Median(times), Samples: len(times)}, err
}

// follow answers a probe.
func (w *worker) follow(ctx context.Context, back int) error {
	answer := new(slot)
	answer.fill(0, 0, make([]byte, back))
	for {
		s := &session{back: answer, whole: make(chan bool, 1)}
		select {
		case w.pings.sessions <- s:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.ctx.Done():
			return transport.ErrClosed
		}
		select {
		case whole := <-s.whole:
			if whole {
				return nil
			} // the initiator has abandoned a probe and will begin another
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// serveProbe is the handler of an initiator's stream.
func (w *worker) serveProbe(s gogrpc.ServerStream) error {
	select {
	case session := <-w.pings.sessions:
		w.pings.answer.Store(session.back)
		whole, err := echo(s, session.back)
		session.whole <- whole
		return err
	case <-s.Context().Done():
		return s.Context().Err()
	case <-w.ctx.Done():
		return transport.ErrClosed
	}
}

// echo answers each message, and reports whether the initiator has ended the stream.
func echo(s stream, out *slot) (whole bool, err error) {
	for {
		in := messages.Get().(*message)
		err := s.RecvMsg(in)
		in.release()
		if err != nil {
			return errors.Is(err, io.EOF), nil
		}
		if err := s.SendMsg(out); err != nil {
			return false, err
		}
	}
}

// servePing is the handler of a unary ping.
func (w *worker) servePing(decode func(any) error) (any, error) {
	in := messages.Get().(*message)
	err := decode(in)
	in.release()
	out := w.pings.answer.Load()
	if err == nil && out == nil {
		err = errFrame // no probe has begun
	}
	return out, err
}
