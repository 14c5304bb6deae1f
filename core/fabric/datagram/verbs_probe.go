package datagram

import (
	"context"
	"fmt"

	"transportbench/core/transport"
)

var _ Prober = (*Verbs)(nil)

// Probe implements [Prober] on queue pairs of its own, so that its datagrams do not mix with those
// of the port.
func (p *Verbs) Probe(ctx context.Context, to Remote, probe transport.Probe) (transport.Floor, error) {
	if p.closed {
		return transport.Floor{}, ErrClosed
	}
	remote, err := p.probe.Open(p.remotes[to].probe)
	if err != nil {
		return transport.Floor{}, fmt.Errorf("opening the remote's probe port: %w", err)
	}
	defer p.probe.Release(remote)
	l := &verbsLink{port: p.probe, to: remote, zeros: make([]byte, p.options.MTU)}
	f, err := measure(ctx, l, p.options.MTU, probe, &p.probed)
	if err == nil {
		err = l.err
	}
	if f.RoundTrip > 0 {
		f.Name = "UD ping-pong"
	}
	return f, err
}

// verbsLink is a [link] over a queue pair. Verbs adds next to nothing to its cost.
type verbsLink struct {
	port    *Verbs
	to      Remote
	zeros   []byte
	packets [probeMost]Packet
	err     error
}

func (l *verbsLink) post(head []byte, size, n int) (sent int) {
	for sent < n && l.port.Send(l.to, head, l.zeros[:size-len(head)]) {
		sent++
	}
	l.fail(l.port.Flush())
	return sent
}

func (l *verbsLink) take(most int) int {
	n, err := l.port.Receive(l.packets[:most])
	l.fail(err)
	return n
}

func (l *verbsLink) head(i int) []byte { return l.packets[i].Data }

func (l *verbsLink) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}
