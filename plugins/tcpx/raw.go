package tcpx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/sock"
	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/conn"
)

// The floor uses the same sockets and the same source, and nothing else. One side sends
// chunks over the sockets in turn; the other reads them all into one buffer.

// rawMessage is the size of a ping in bytes: one number.
const rawMessage = 8

// rawExchange sends or receives all of b.
func rawExchange(stopped *atomic.Bool, fd int, b []byte, do func(int, []byte) (int, error)) error {
	for wait := (spin.Wait{}); len(b) > 0; {
		n, err := do(fd, b)
		if err != nil {
			return err
		}
		b = b[n:]
		if err := conn.Stepped(stopped, &wait, n == 0); err != nil {
			return err
		}
	}
	return nil
}

// rawPingPong is the [floor.Medium] of one socket.
type rawPingPong struct {
	stopped *atomic.Bool
	fd      int
	in      [rawMessage]byte
	filled  int // bytes of in
}

func newRawPingPong(stopped *atomic.Bool, fd int) *floor.PingPong {
	return &floor.PingPong{Name: "raw TCP ping-pong",
		Medium: &rawPingPong{stopped: stopped, fd: fd}}
}

func (m *rawPingPong) Post(number uint64) error {
	var b [rawMessage]byte
	binary.LittleEndian.PutUint64(b[:], number)
	return rawExchange(m.stopped, m.fd, b[:], sock.SendBytes)
}

func (m *rawPingPong) Take() (number uint64, ok bool, err error) {
	n, err := sock.ReceiveBytes(m.fd, m.in[m.filled:])
	if m.filled += n; err != nil || m.filled < rawMessage {
		return 0, false, err
	}
	m.filled = 0
	return binary.LittleEndian.Uint64(m.in[:]), true, nil
}

// rawSend sends chunks over the sockets for about d, waits until the sockets have taken them
// all, and returns how many bytes they were.
func rawSend(stopped *atomic.Bool, fds []int, s *settings, source []byte,
	d time.Duration) (bytes int, err error) {
	unsent := make([][]byte, len(fds))
	parts := s.parts(source, s.chunk)
	start := time.Now()
	var wait spin.Wait
	for ending, open := false, len(fds); open > 0; {
		moved := false
		for i, fd := range fds {
			if fd < 0 {
				continue
			}
			if len(unsent[i]) == 0 {
				if ending = ending || time.Since(start) > d && bytes > 0; ending {
					if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
						return bytes, fmt.Errorf("shutdown: %w", err)
					}
					fds[i] = -1
					open--
					continue
				}
				unsent[i] = parts()
			}
			n, err := sock.SendBytes(fd, unsent[i])
			if err != nil {
				return bytes, err
			}
			unsent[i] = unsent[i][n:]
			bytes += n
			moved = moved || n > 0
		}
		if err := conn.Stepped(stopped, &wait, !moved); err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

// rawReceive reads from the sockets until all have ended, and returns how many bytes came.
func rawReceive(stopped *atomic.Bool, fds []int, buffer []byte) (bytes int, err error) {
	ended := make([]bool, len(fds))
	var wait spin.Wait
	for open := len(fds); open > 0; {
		moved := false
		for i, fd := range fds {
			if ended[i] {
				continue
			}
			n, err := sock.ReceiveBytes(fd, buffer)
			switch {
			case errors.Is(err, sock.ErrClosed):
				ended[i] = true
				open--
			case err != nil:
				return bytes, err
			}
			bytes += n
			moved = moved || n > 0
		}
		if err := conn.Stepped(stopped, &wait, !moved); err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

// rawFloor is the reading of rawLead.
type rawFloor struct {
	transport.Floor
	bandwidth float64 // bytes per second
	bytes     int     // of the stream
	sender    time.Duration
	receiver  time.Duration // processor times of the stream; the receiver's in rawStream alone
}

// rawLead measures over connected sockets, which end with it, half of d each: round
// trips on the first, then a stream over all.
func rawLead(ctx context.Context, fds []int, s *settings, source []byte,
	d time.Duration) (f rawFloor, err error) {
	stopped, release := stoppedBy(ctx)
	defer release()
	if f.Floor, err = newRawPingPong(stopped, fds[0]).Run(ctx, true, d/2); err != nil {
		return f, err
	}
	start, before := time.Now(), threadTime()
	f.bytes, err = rawSend(stopped, slices.Clone(fds), s, source, d/2)
	if err != nil {
		return f, err
	}
	f.sender = threadTime() - before
	var total [rawMessage]byte
	if err := rawExchange(stopped, fds[0], total[:], sock.ReceiveBytes); err != nil {
		return f, err
	}
	if got := binary.LittleEndian.Uint64(total[:]); got != uint64(f.bytes) {
		return f, fmt.Errorf("%d bytes were sent and the peer says it received %d", f.bytes, got)
	}
	f.bandwidth = float64(f.bytes) / time.Since(start).Seconds()
	return f, nil
}

// rawFollow is the other side of rawLead. It returns the processor time of the stream.
func rawFollow(ctx context.Context, fds []int, s *settings) (processor time.Duration, err error) {
	stopped, release := stoppedBy(ctx)
	defer release()
	if _, err := newRawPingPong(stopped, fds[0]).Run(ctx, false, 0); err != nil {
		return 0, err
	}
	before := threadTime()
	bytes, err := rawReceive(stopped, fds, make([]byte, s.chunk))
	if err != nil {
		return 0, err
	}
	processor = threadTime() - before
	var total [rawMessage]byte
	binary.LittleEndian.PutUint64(total[:], uint64(bytes))
	return processor, rawExchange(stopped, fds[0], total[:], sock.SendBytes)
}

// rawStream is the floor between two threads of this process.
func rawStream(ctx context.Context, s *settings, source []byte, d time.Duration) (f rawFloor,
	err error) {
	near, far, err := s.sock.Pairs(s.sockets)
	if err != nil {
		return f, err
	}
	var receiver time.Duration
	defer func() { err = errors.Join(err, sock.CloseAll(near), sock.CloseAll(far)) }()
	err = onTwoThreads(ctx,
		func(ctx context.Context) (err error) {
			f, err = rawLead(ctx, near, s, source, d)
			return err
		},
		func(ctx context.Context) (err error) {
			receiver, err = rawFollow(ctx, far, s)
			return err
		})
	f.receiver = receiver
	return f, err
}
