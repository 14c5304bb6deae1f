package fabrictest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"transportbench/core/transport"
)

// Path measures a transport's code alone: one thread drives both the caller and the server, so no
// cache line moves between cores.
type Path struct {
	Options      map[string]string
	Batch, Bytes int // calls at a time, and the payload of each
}

// trips are the two ends of a Path.
type trips struct {
	caller, server transport.Worker
	calls, replies []transport.Op
	events         []transport.Event
	transports     [2]transport.Transport
}

// Benchmark reports the time of a call with its reply.
func (p Path) Benchmark(b *testing.B, driver transport.Driver) {
	t, err := p.open(driver)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := t.close(); err != nil {
			b.Fatal(err)
		}
	}()
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += p.Batch {
		t.trip()
	}
}

func (p Path) open(driver transport.Driver) (*trips, error) {
	t := &trips{calls: make([]transport.Op, p.Batch), replies: make([]transport.Op, p.Batch),
		events: make([]transport.Event, 64)}
	for i := range t.calls {
		t.calls[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i),
			Payload: make([]byte, p.Bytes)}
	}
	r := Rank{Options: p.Options, InFlight: p.Batch, MaxPayload: p.Bytes}
	var err error
	if t.transports[0], t.caller, err = r.Open(driver); err != nil {
		return nil, err
	}
	if t.transports[1], t.server, err = r.Open(driver); err != nil {
		return nil, errors.Join(err, t.transports[0].Close())
	}
	err = errors.Join(t.caller.Connect(context.Background(), 0, t.server.Address()),
		t.server.Connect(context.Background(), 0, t.caller.Address()))
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *trips) close() error {
	return errors.Join(t.transports[0].Close(), t.transports[1].Close())
}

// trip makes all calls and answers them.
func (t *trips) trip() {
	for left, got := t.calls, 0; got < len(t.calls); got += must(t.caller.Poll(t.events)) {
		if len(left) > 0 {
			left = left[must(t.caller.Post(left)):]
			must(0, t.caller.Flush())
		}
		t.serve()
	}
}

// serve answers the calls that have arrived.
func (t *trips) serve() {
	n := must(t.server.Poll(t.events))
	if n == 0 {
		return
	}
	for i := range n {
		e, reply := &t.events[i], &t.replies[i]
		reply.Kind = transport.OpReply
		reply.Peer = e.Peer
		reply.Token = e.Token
		reply.Payload = e.Payload
	}
	if posted := must(t.server.Post(t.replies[:n])); posted != n {
		panic(fmt.Sprintf("posted %d replies of %d", posted, n))
	}
	must(0, t.server.Flush())
}

// must panics on an error: a benchmark that ignores one may hang.
func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}
