package datagram

import (
	"context"

	"transportbench/core/transport"
)

// probePort is one side of a probe between ports that are for nothing else.
func probePort(ctx context.Context, port Port, remote Remote, probe transport.Probe,
	last *uint64) (transport.Floor, error) {
	l := &portLink{port: port, to: remote, zeros: make([]byte, port.MTU())}
	l.from = port.Source(remote)
	drain(l)
	f, err := measure(ctx, l, port.MTU(), probe, last)
	if err == nil && l.err != nil {
		return transport.Floor{}, l.err
	}
	return f, err
}

// portLink is a [link] over a port, which adds next to nothing to the cost of a queue pair or of a
// system call for many datagrams.
type portLink struct {
	port    Port
	to      Remote
	from    Source
	zeros   []byte
	packets [maxProbe]Packet
	err     error
}

func (l *portLink) post(head []byte, size, n int) (sent int) {
	for sent < n && l.port.Send(l.to, head, l.zeros[:size-len(head)]) {
		sent++
	}
	l.fail(l.port.Flush())
	return sent
}

func (l *portLink) take(maximum int) int {
	n, err := l.port.Receive(l.packets[:maximum], Target{})
	l.fail(err)
	kept := 0
	for i := range n {
		if l.packets[i].Source == l.from {
			l.packets[kept] = l.packets[i]
			kept++
		}
	}
	return kept
}

func (l *portLink) head(i int) []byte { return l.packets[i].Data }

func (l *portLink) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}
