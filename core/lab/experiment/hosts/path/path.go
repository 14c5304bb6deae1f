package path

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	messages    = 1000 // of a round-trip measurement
	messageSize = 64   // bytes
	blockSize   = 64 << 10
	bulkTime    = 200 * time.Millisecond
	dialTimeout = 3 * time.Second
	// limit bounds a measurement, which takes 0.2 s on a network that works.
	limit = 5 * time.Second
)

// The first byte of a connection says what follows.
const (
	echoes  = 'e'
	discard = 'd'
)

// Request asks a host to open a port at Listen, or to measure the path to Peer: the round trip, or
// with Bulk the bandwidth.
type Request struct {
	Listen netip.Addr     `json:"listen,omitzero"`
	Peer   netip.AddrPort `json:"peer,omitzero"`
	Bulk   bool           `json:"bulk,omitempty"`
}

// Reply answers a [Request]: with the port, or what was measured.
type Reply struct {
	Port      netip.AddrPort `json:"port,omitzero"`
	RoundTrip time.Duration  `json:"round_trip_ns,omitempty"` // the median of a thousand
	Rate      float64        `json:"bytes_per_second,omitempty"`
}

// Host is an end of paths. The zero value is ready to use.
type Host struct {
	mu       sync.Mutex
	listener net.Listener
	serving  sync.WaitGroup
}

// Take does what a request asks for, in bounded time. The port stays open until Close.
func (h *Host) Take(ctx context.Context, r Request) (Reply, error) {
	switch {
	case r.Listen.IsValid():
		return h.listen(r.Listen)
	case r.Bulk:
		rate, err := bandwidth(ctx, r.Peer)
		return Reply{Rate: rate}, err
	}
	median, err := roundTrip(ctx, r.Peer)
	return Reply{RoundTrip: median}, err
}

// listen opens the host's port, once.
func (h *Host) listen(at netip.Addr) (Reply, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener != nil {
		return Reply{}, errors.New("the port for paths is open already")
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return Reply{}, err
	}
	h.listener = listener
	h.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			h.serving.Go(func() { serve(conn) })
		}
	})
	return Reply{Port: listener.Addr().(*net.TCPAddr).AddrPort()}, nil
}

// Close closes the port and waits for measurements that use it.
func (h *Host) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener != nil {
		_ = h.listener.Close()
		h.serving.Wait()
	}
}

// serve is the other end of a measurement.
func serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return
	}
	if kind[0] == echoes {
		_, _ = io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn},
			make([]byte, messageSize))
		return
	}
	if _, err := io.Copy(io.Discard, conn); err == nil {
		_, _ = conn.Write(kind[:])
	}
}

// dial opens a connection for a measurement of one kind.
func dial(ctx context.Context, peer netip.AddrPort, kind byte) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", peer.String())
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(limit)
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(deadline) {
		deadline = sooner
	}
	_ = conn.SetDeadline(deadline)
	if _, err := conn.Write([]byte{kind}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func roundTrip(ctx context.Context, peer netip.AddrPort) (time.Duration, error) {
	conn, err := dial(ctx, peer, echoes)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	message, times := make([]byte, messageSize), make([]time.Duration, messages)
	for i := range times {
		began := time.Now()
		if _, err = conn.Write(message); err == nil {
			_, err = io.ReadFull(conn, message)
		}
		if err != nil {
			return 0, fmt.Errorf("message %d of %d: %w", i+1, messages, err)
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[messages/2], nil
}

func bandwidth(ctx context.Context, peer netip.AddrPort) (float64, error) {
	conn, err := dial(ctx, peer, discard)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	block, sent := make([]byte, blockSize), 0
	began := time.Now()
	for err == nil && time.Since(began) < bulkTime {
		var n int
		n, err = conn.Write(block)
		sent += n
	}
	if err == nil {
		err = conn.CloseWrite()
	}
	if err == nil {
		_, err = io.ReadFull(conn, block[:1])
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errors.New("full packets do not arrive: a link between has a smaller MTU than the " +
			"interfaces of the hosts")
	}
	return float64(sent) / time.Since(began).Seconds(), err
}
