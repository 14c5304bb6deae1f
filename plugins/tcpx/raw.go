package tcpx

import (
	"context"
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

// The raw stream uses the same sockets and the same source as a connection, and nothing else. One
// side sends chunks over the sockets in turn; the other reads them all into one buffer.

// rawStream measures round trips over one socket between two threads of this process, and then a
// stream over as many as a connection has, for half of d each. It returns the bandwidth of the
// stream in bytes per second.
func rawStream(ctx context.Context, s *settings, source []byte, d time.Duration) (
	f transport.Floor, bandwidth float64, err error) {
	near, far, err := s.sock.Pairs(1 + s.sockets) // the first is for the round trips
	if err != nil {
		return f, 0, err
	}
	defer func() { err = errors.Join(err, sock.CloseAll(near), sock.CloseAll(far)) }()
	ping := transport.Probe{Kind: transport.ProbeMedium, Duration: d / 2}
	var start, end time.Time
	var sent, received int
	err = onTwoThreads(ctx,
		func(ctx context.Context) (err error) {
			lead := ping
			lead.Initiate = true
			if f, err = floor.ProbeStream(ctx, near[0], lead); err != nil {
				return err
			}
			stopped, release := stoppedBy(ctx)
			defer release()
			start = time.Now()
			sent, err = rawSend(stopped, near[1:], s, source, d/2)
			return err
		},
		func(ctx context.Context) (err error) {
			if _, err = floor.ProbeStream(ctx, far[0], ping); err != nil {
				return err
			}
			stopped, release := stoppedBy(ctx)
			defer release()
			received, err = rawReceive(stopped, far[1:], make([]byte, s.chunk))
			end = time.Now()
			return err
		})
	if err == nil && sent != received {
		err = fmt.Errorf("%d bytes were sent and %d received", sent, received)
	}
	return f, float64(received) / end.Sub(start).Seconds(), err
}

// rawSend sends chunks over the sockets for about d, ends the streams, and returns how many bytes
// the sockets have taken.
func rawSend(stopped *atomic.Bool, sockets []int, s *settings, source []byte,
	d time.Duration) (bytes int, err error) {
	open := slices.Clone(sockets)
	unsent := make([][]byte, len(open))
	parts := s.parts(source, s.chunk)
	start := time.Now()
	var wait spin.Wait
	for ending := false; len(open) > 0; {
		moved := false
		for i := 0; i < len(open); i++ {
			if len(unsent[i]) == 0 {
				if ending = ending || time.Since(start) > d && bytes > 0; ending {
					if err := unix.Shutdown(open[i], unix.SHUT_WR); err != nil {
						return bytes, fmt.Errorf("shutdown: %w", err)
					}
					open, unsent = slices.Delete(open, i, i+1), slices.Delete(unsent, i, i+1)
					break
				}
				unsent[i] = parts()
			}
			n, err := sock.SendBytes(open[i], unsent[i])
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
func rawReceive(stopped *atomic.Bool, sockets []int, buffer []byte) (bytes int, err error) {
	open := slices.Clone(sockets)
	var wait spin.Wait
	for len(open) > 0 {
		moved := false
		for i, fd := range open {
			n, err := sock.ReceiveBytes(fd, buffer)
			if errors.Is(err, sock.ErrClosed) {
				open = slices.Delete(open, i, i+1)
				break
			}
			if err != nil {
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
