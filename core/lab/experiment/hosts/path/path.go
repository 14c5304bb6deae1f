package path

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	messages    = 1000 // of a round-trip measurement
	messageSize = 64   // bytes
	blockSize   = 64 << 10
	bulkTime    = 200 * time.Millisecond
	dialTimeout = 3 * time.Second
	// limit bounds a measurement, which takes 0.2 s on a network that works.
	limit = 5 * time.Second
	// maxConnections bounds those of a port. A host measures to another one at a time.
	maxConnections = 64
)

// The first byte of a connection says what follows its token.
const (
	echo    = 'e'
	discard = 'd'
)

// Request asks a host to open a port at Listen, or to measure the path to Peer: the round trip, or
// with Bulk the bandwidth.
type Request struct {
	Listen netip.Addr     `json:"listen,omitzero"`
	Peer   netip.AddrPort `json:"peer,omitzero"`
	Token  string         `json:"token,omitempty"` // of the peer's reply
	Bulk   bool           `json:"bulk,omitempty"`
}

// Reply answers a [Request]: with the port, and the token without which it serves nobody, or what
// was measured.
type Reply struct {
	Port      netip.AddrPort `json:"port,omitzero"`
	Token     string         `json:"token,omitempty"`
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
		rate, err := bandwidth(ctx, &r)
		return Reply{Rate: rate}, err
	}
	median, err := roundTrip(ctx, &r)
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
	token, room := rand.Text(), make(chan struct{}, maxConnections)
	h.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			select {
			case room <- struct{}{}:
				h.serving.Go(func() {
					serve(conn, token)
					<-room
				})
			default:
				_ = conn.Close()
			}
		}
	})
	return Reply{Port: listener.Addr().(*net.TCPAddr).AddrPort(), Token: token}, nil
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

// serve is the other end of a measurement, for those who know the token.
func serve(conn net.Conn, token string) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	header := make([]byte, 1+len(token))
	if _, err := io.ReadFull(conn, header); err != nil ||
		subtle.ConstantTimeCompare(header[1:], []byte(token)) == 0 {
		return
	}
	if header[0] == echo {
		_, _ = io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn},
			make([]byte, messageSize))
		return
	}
	if _, err := io.Copy(io.Discard, conn); err == nil {
		_, _ = conn.Write(header[:1])
	}
}

// dial opens a connection for a measurement of one kind.
func dial(ctx context.Context, r *Request, kind byte) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", r.Peer.String())
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(limit)
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(deadline) {
		deadline = sooner
	}
	_ = conn.SetDeadline(deadline)
	if _, err := conn.Write(append([]byte{kind}, r.Token...)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func roundTrip(ctx context.Context, r *Request) (time.Duration, error) {
	conn, err := dial(ctx, r, echo)
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

func bandwidth(ctx context.Context, r *Request) (float64, error) {
	conn, err := dial(ctx, r, discard)
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
		err = stalled(conn, sent, uint64(1+len(r.Token)))
	}
	return float64(sent) / time.Since(began).Seconds(), err
}

// stalled explains why what was sent after a header did not all arrive in time.
func stalled(conn *net.TCPConn, sent int, header uint64) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPInfo
	var failed error
	err = raw.Control(func(fd uintptr) {
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err := cmp.Or(err, failed); err != nil {
		return err
	}
	// The SYN counts as a byte.
	if arrived := int64(info.Bytes_acked) - int64(header) - 1; arrived > 0 {
		return fmt.Errorf("only %d of %d bytes arrived in time, and %d packets were sent again: "+
			"the path loses packets, or the host does not read", arrived, sent, info.Total_retrans)
	}
	return errors.New("small packets arrive and full ones do not: a link between has a smaller " +
		"MTU than the interfaces of the hosts")
}
