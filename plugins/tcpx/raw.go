package tcpx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The floor: the same sockets and the same source, and nothing else. One side sends
// chunks over the sockets in turn; the other reads them all into one buffer.

// rawMessage is the bytes of a ping, which is a number. rawLast is set in the last.
const (
	rawMessage = 8
	rawLast    = 1 << 63
)

// rawExchange sends or receives all of b.
func rawExchange(stopped *atomic.Bool, fd int, b []byte, do func(int, []byte) (int, error)) error {
	for spins := 0; len(b) > 0; {
		n, err := do(fd, b)
		if err != nil {
			return err
		}
		b = b[n:]
		if err := rest(stopped, &spins, n == 0); err != nil {
			return err
		}
	}
	return nil
}

// rawPing bounces numbers for about d and returns the times of the round trips. The
// first waits for the other side, and is not among them.
func rawPing(stopped *atomic.Bool, fd int, d time.Duration) (trips []float64, err error) {
	var b [rawMessage]byte
	for start, first := time.Now(), time.Duration(0); ; {
		before := time.Since(start)
		if len(trips) == 0 {
			first = before
		}
		number := uint64(len(trips))
		if len(trips) > 2 && before-first > d {
			number |= rawLast
		}
		binary.LittleEndian.PutUint64(b[:], number)
		if err := rawExchange(stopped, fd, b[:], sendBytes); err != nil {
			return nil, err
		}
		if err := rawExchange(stopped, fd, b[:], receiveBytes); err != nil {
			return nil, err
		}
		trips = append(trips, float64(time.Since(start)-before))
		if number&rawLast != 0 {
			return trips[1:], nil
		}
	}
}

// rawPong answers pings until the last.
func rawPong(stopped *atomic.Bool, fd int) error {
	var b [rawMessage]byte
	for {
		if err := rawExchange(stopped, fd, b[:], receiveBytes); err != nil {
			return err
		}
		if err := rawExchange(stopped, fd, b[:], sendBytes); err != nil {
			return err
		}
		if binary.LittleEndian.Uint64(b[:])&rawLast != 0 {
			return nil
		}
	}
}

// rawSend sends chunks over the sockets for about d, waits until the other side has them
// all, and returns how many bytes that were.
func rawSend(stopped *atomic.Bool, fds []int, s *settings, source []byte, d time.Duration) (bytes int, err error) {
	type sending struct{ left []byte }
	lanes := make([]sending, len(fds))
	parts := s.walkChunks(source)
	start := time.Now()
	spins := 0
	for ending, open := false, len(fds); open > 0; {
		moved := false
		for i, fd := range fds {
			l := &lanes[i]
			if fd < 0 {
				continue
			}
			if len(l.left) == 0 {
				if ending = ending || time.Since(start) > d && bytes > 0; ending {
					if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
						return bytes, fmt.Errorf("shutdown: %w", err)
					}
					fds[i] = -1
					open--
					continue
				}
				l.left = parts()
			}
			n, err := sendBytes(fd, l.left)
			if err != nil {
				return bytes, err
			}
			l.left = l.left[n:]
			bytes += n
			moved = moved || n > 0
		}
		if err := rest(stopped, &spins, !moved); err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

// walkChunks is walk by chunks.
func (s *settings) walkChunks(source []byte) func() []byte {
	byChunk := *s
	byChunk.request = s.chunk
	return byChunk.walk(source)
}

// rawReceive reads what comes over the sockets, until all have ended.
func rawReceive(stopped *atomic.Bool, fds []int, buffer []byte) (bytes int, err error) {
	ended := make([]bool, len(fds))
	spins := 0
	for open := len(fds); open > 0; {
		moved := false
		for i, fd := range fds {
			if ended[i] {
				continue
			}
			n, err := receiveBytes(fd, buffer)
			switch {
			case err == errSocketClosed:
				ended[i] = true
				open--
			case err != nil:
				return bytes, err
			}
			bytes += n
			moved = moved || n > 0
		}
		if err := rest(stopped, &spins, !moved); err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

// rawFloor is what rawLead finds out.
type rawFloor struct {
	roundTrip float64 // nanoseconds, median
	samples   int
	bandwidth float64 // bytes per second
	bytes     int     // of the stream
	sender    time.Duration
	receiver  time.Duration // processor times of the stream; the receiver's in rawStream alone
}

// rawLead measures over connected sockets, which end with it, half of d each: round
// trips on the first, then a stream over all.
func rawLead(stopped *atomic.Bool, fds []int, s *settings, source []byte, d time.Duration) (f rawFloor, err error) {
	trips, err := rawPing(stopped, fds[0], d/2)
	if err != nil {
		return f, err
	}
	slices.Sort(trips)
	f.roundTrip, f.samples = trips[len(trips)/2], len(trips)
	start, before := time.Now(), threadTime()
	f.bytes, err = rawSend(stopped, slices.Clone(fds), s, source, d/2)
	if err != nil {
		return f, err
	}
	f.sender = threadTime() - before
	var total [rawMessage]byte
	if err := rawExchange(stopped, fds[0], total[:], receiveBytes); err != nil {
		return f, err
	}
	if got := binary.LittleEndian.Uint64(total[:]); got != uint64(f.bytes) {
		return f, fmt.Errorf("%d bytes were sent and the peer says it received %d", f.bytes, got)
	}
	f.bandwidth = float64(f.bytes) / time.Since(start).Seconds()
	return f, nil
}

// rawFollow is the other side of rawLead. It returns the processor time of the stream.
func rawFollow(stopped *atomic.Bool, fds []int, s *settings) (processor time.Duration, err error) {
	if err := rawPong(stopped, fds[0]); err != nil {
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
	return processor, rawExchange(stopped, fds[0], total[:], sendBytes)
}

// rawStream is the floor between two threads of this process.
func rawStream(ctx context.Context, s *settings, source []byte, d time.Duration) (f rawFloor, err error) {
	near, far, err := s.connectedPair(s.sockets)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, closeAll(near), closeAll(far)) }()
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	var leadErr, followErr error
	var receiver time.Duration
	var both sync.WaitGroup
	run := func(into *error, f func() error) {
		both.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if *into = f(); *into != nil {
				stopped.Store(true)
			}
		})
	}
	run(&leadErr, func() (err error) {
		f, err = rawLead(&stopped, near, s, source, d)
		return err
	})
	run(&followErr, func() (err error) {
		receiver, err = rawFollow(&stopped, far, s)
		return err
	})
	both.Wait()
	f.receiver = receiver
	return f, errors.Join(ctx.Err(), leadErr, followErr)
}
