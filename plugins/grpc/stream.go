package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	gogrpc "google.golang.org/grpc"
)

// The worker with the smaller nonce dials, and opens one stream for all messages of the connection.
// On each side one goroutine sends and one receives.

const (
	serviceName  = "transportbench.Transport"
	streamMethod = "/" + serviceName + "/Stream"
	callMethod   = "/" + serviceName + "/Call"
	probeMethod  = "/" + serviceName + "/Probe"
	pingMethod   = "/" + serviceName + "/Ping"
)

var (
	streamDesc = gogrpc.StreamDesc{StreamName: "Stream", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, s gogrpc.ServerStream) error { return srv.(*worker).serveStream(s) }}
	probeDesc = gogrpc.StreamDesc{StreamName: "Probe", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, s gogrpc.ServerStream) error { return srv.(*worker).serveProbe(s) }}
	serviceDesc = gogrpc.ServiceDesc{
		ServiceName: serviceName, HandlerType: (*any)(nil),
		Streams: []gogrpc.StreamDesc{streamDesc, probeDesc},
		Methods: []gogrpc.MethodDesc{
			{MethodName: "Call", Handler: func(srv any, ctx context.Context, decode func(any) error,
				_ gogrpc.UnaryServerInterceptor) (any, error) {
				return srv.(*worker).serveCall(ctx, decode)
			}},
			{MethodName: "Ping", Handler: func(srv any, _ context.Context, decode func(any) error,
				_ gogrpc.UnaryServerInterceptor) (any, error) {
				return srv.(*worker).servePing(decode)
			}},
		},
	}
)

// stream is either side of a stream.
type stream interface {
	Context() context.Context
	SendMsg(m any) error
	RecvMsg(m any) error
}

// openStream dials the peer and carries messages until the connection ends.
func (p *peer) openStream() {
	s, err := p.client.NewStream(p.ctx, &streamDesc, streamMethod, gogrpc.WaitForReady(true))
	if err == nil {
		// Until the peer's header or first message arrives, grpc-go keeps sent messages for a
		// retry. A message that is in SendMsg at that moment is never returned (v1.85,
		// bufferForRetryLocked), and its slot would leak. So wait for the header first. RecvMsg
		// returns the error, if any.
		_, _ = s.Header()
		err = p.carry(s)
	}
	p.fail(err)
}

// serveStream is the server's side of a peer's stream.
func (w *worker) serveStream(s gogrpc.ServerStream) error {
	p, err := w.admit(s.Context())
	if err != nil {
		return err
	}
	if !p.streaming.CompareAndSwap(false, true) {
		return errors.New("the stream is open already")
	}
	if err = s.SendHeader(nil); err == nil { // openStream waits for it
		err = p.carry(s)
	}
	p.fail(err)
	return errors.New("the connection has ended")
}

// carry sends and receives until the stream ends, and returns why it ended.
func (p *peer) carry(s stream) error {
	p.up.Store(true)
	p.out.stream.Store(&s)
	p.worker.group.Go(func() { p.out.run(s) })
	for {
		m := newMessage(p, 0)
		if err := s.RecvMsg(m); err != nil {
			m.release()
			if errors.Is(err, io.EOF) {
				err = errors.New("the peer has closed the stream")
			}
			return err
		}
		var err error
		if m.kind, m.token, m.bytes, err = parseFrame(m.bytes,
			p.worker.settings.payload); err == nil {
			err = p.count(m.kind)
		}
		if err != nil {
			m.release()
			return err
		}
		p.worker.inbox.push(m)
	}
}

// count bounds the messages that wait in the inbox. An honest peer sends no more than its calls in
// flight.
func (p *peer) count(k kind) error {
	waiting := &p.waiting[k-1]
	if waiting.Add(1) > int64(p.worker.settings.inFlight) {
		return fmt.Errorf("%w: more than %d calls are in flight", errFrame,
			p.worker.settings.inFlight)
	}
	return nil
}
