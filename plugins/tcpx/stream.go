package tcpx

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// footprint is the bytes of a cold source, and of a stream's destination: the bulk
// transfer of the walk-through.
const footprint = 64 << 20

// endpoint is one side of a stream: a comm with bounce memory of its own.
type endpoint struct {
	comm        *comm
	intake      intake
	unpacks     *unpacking
	destination buffer
	counts      counts
}

// newEndpoints makes two sides that are connected over the loopback device, or
// whatever settings.address is. The second has a destination of so many bytes.
func newEndpoints(s *settings, destination int) (a, b *endpoint, err error) {
	near, far, err := s.connectedPair(s.sockets + 1)
	if err != nil {
		return nil, nil, err
	}
	if a, err = newEndpoint(s, near, 0); err != nil {
		return nil, nil, errors.Join(err, closeAll(far))
	}
	if b, err = newEndpoint(s, far, destination); err != nil {
		return nil, nil, errors.Join(err, a.close())
	}
	return a, b, nil
}

func newEndpoint(s *settings, sockets []int, destination int) (*endpoint, error) {
	in, u, err := newUnpacking(s)
	if err != nil {
		return nil, errors.Join(err, closeAll(sockets))
	}
	e := &endpoint{intake: in, unpacks: u}
	moreThreads(s.threads)
	e.comm = newComm(s, in, u, 0, &e.counts)
	err = e.comm.attach(sockets[0], sockets[1:])
	if err == nil && s.zeroCopyFor(s.address) {
		err = e.comm.useZeroCopy()
	}
	if err == nil {
		err = e.comm.startHelpers(nil)
	}
	if err == nil && destination > 0 {
		e.destination, err = u.allocate(destination)
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// close releases everything. It waits for what is being unpacked.
func (e *endpoint) close() error {
	err := e.comm.shut()
	e.comm.settle(true)
	moreThreads(-e.comm.settings.threads)
	if e.destination.size > 0 {
		err = errors.Join(err, e.unpacks.free(e.destination))
		e.destination = buffer{}
	}
	return errors.Join(err, e.unpacks.close(), e.intake.close())
}

// send sends what next returns, request by request, until it returns nil, and then an
// empty request, which ends a transfer. The memory must stay until send returns.
func (e *endpoint) send(stopped *atomic.Bool, tag uint64, next func() []byte) error {
	c := e.comm
	window := uint64(c.settings.sendWindow)
	spins := 0
	for more := true; more || c.sendFreed < c.sendPosted; {
		c.stall.waiting = false
		for more && c.sendPosted-c.sendFreed < window {
			part := next()
			more = len(part) > 0
			if _, err := c.isend(vector{part}, tag+c.sendPosted); err != nil {
				return err
			}
		}
		c.stall.waiting = more
		before := c.counts.sentBytes
		if err := c.progress(); err != nil {
			return err
		}
		freed := c.sendFreed
		for c.freeSend() {
		}
		if err := rest(stopped, &spins, freed == c.sendFreed && before == c.counts.sentBytes); err != nil {
			return err
		}
	}
	return nil
}

// receive takes a transfer in, to wherever next says for each request, and returns its
// bytes.
func (e *endpoint) receive(stopped *atomic.Bool, tag uint64, next func(number uint64) buffer) (bytes int, err error) {
	c := e.comm
	window := uint64(c.settings.receiveWindow)
	spins := 0
	for ended := false; !ended; {
		for c.receivePosted-c.receiveConsumed < window {
			if _, err := c.irecv(next(c.receivePosted), tag+c.receivePosted); err != nil {
				return bytes, err
			}
		}
		before := c.counts.receivedBytes
		if err := c.progress(); err != nil {
			return bytes, err
		}
		for c.doneReceive() {
		}
		consumed := c.receiveConsumed
		for !ended && c.receiveConsumed < c.receiveDone {
			size := c.receives[c.receiveConsumed%requests].total
			if err := c.consumed(c.receiveConsumed); err == errUnpacking {
				break
			} else if err != nil {
				return bytes, err
			}
			bytes += size
			ended = size == 0
		}
		if err := rest(stopped, &spins, consumed == c.receiveConsumed && before == c.counts.receivedBytes); err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

var errStopped = errors.New("stopped")

// spinsBeforeRest is how many turns in vain a thread takes: longer than any answer of a
// thread that runs. The other side has no processor then, and may be waiting for this one's.
const spinsBeforeRest = 256

// rest ends what was stopped, and gives the processor to others after many turns in a row
// in which there was nothing to do, without Go's scheduler.
func rest(stopped *atomic.Bool, spins *int, idle bool) error {
	if stopped.Load() {
		return errStopped
	}
	if *spins++; !idle {
		*spins = 0
	}
	if *spins >= spinsBeforeRest {
		*spins = 0
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	return nil
}

// reading is what a stream came to.
type reading struct {
	bytes    int
	elapsed  time.Duration // first receive posted to last consumed
	send     counts
	receive  counts
	sendCPU  time.Duration // of the thread that sends
	receiver time.Duration // of the thread that receives, and not of unpack workers
}

// bandwidth is in bytes per second.
func (r reading) bandwidth() float64 { return float64(r.bytes) / r.elapsed.Seconds() }

// stream sends from one thread to another for about d, from a source of the footprint
// that the settings ask for.
func stream(ctx context.Context, s *settings, source []byte, d time.Duration) (r reading, err error) {
	a, b, err := newEndpoints(s, footprint)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, a.close(), b.close()) }()
	touch(b.destination.host[:min(footprint, len(b.destination.host))])
	touch(b.intake.memory())
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()

	var sendErr, receiveErr error
	var both sync.WaitGroup
	both.Go(func() {
		r.sendCPU = onThread(func() {
			parts := s.walk(source)
			start := time.Now()
			sendErr = a.send(&stopped, 0, func() []byte {
				if time.Since(start) > d {
					return nil
				}
				return parts()
			})
		})
		if sendErr != nil {
			stopped.Store(true)
		}
	})
	both.Go(func() {
		r.receiver = onThread(func() {
			slots := footprint / s.request
			r.bytes, receiveErr = b.receive(&stopped, 0, func(number uint64) buffer {
				return b.destination.slice(int(number%uint64(slots))*s.request, s.request)
			})
		})
		if receiveErr != nil {
			stopped.Store(true)
		}
	})
	both.Wait()
	if err := errors.Join(ctx.Err(), sendErr, receiveErr); err != nil {
		return r, fmt.Errorf("stream: %w", err)
	}
	r.send, r.receive = a.counts, b.counts
	r.elapsed = time.Duration(b.counts.lastConsume - b.counts.firstPost)
	return r, nil
}

// walk returns what a source is sent in: a request's part after the other, again and
// again, or always the first.
func (s *settings) walk(source []byte) func() []byte {
	at := 0
	return func() []byte {
		if s.hot || at+s.request > len(source) {
			at = 0
		}
		part := source[at : at+s.request]
		at += s.request
		return part
	}
}

// onThread runs f on a thread of its own and returns the processor time that it took.
func onThread(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	f()
	return threadTime() - before
}

// threadTime is exact: getrusage(2) may count in ticks.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// connectedPair makes n connections of this process with itself.
func (s *settings) connectedPair(n int) (near, far []int, err error) {
	listener, at, err := s.listen(0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		err = errors.Join(err, unix.Close(listener))
		if err != nil {
			err = errors.Join(err, closeAll(near), closeAll(far))
		}
	}()
	for range n {
		fd, err := s.dial(at)
		if err != nil {
			return near, far, err
		}
		near = append(near, fd)
		for fd = -1; fd < 0; {
			poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
			if _, err := unix.Poll(poll, int(s.timeout.Milliseconds())); err != nil && err != unix.EINTR {
				return near, far, fmt.Errorf("poll: %w", err)
			}
			if fd, _, err = s.accept(listener); err != nil {
				return near, far, err
			}
		}
		far = append(far, fd)
	}
	return near, far, nil
}

func closeAll(sockets []int) error {
	var errs []error
	for _, fd := range sockets {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// newSource makes the source of a stream or a floor, all pages of which are there.
func newSource() ([]byte, error) {
	source, err := unix.Mmap(-1, 0, footprint, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("a source of %d bytes: mmap: %w", footprint, err)
	}
	touch(source)
	return source, nil
}

// touch writes to every page, so that each is there and is one of its own.
func touch(memory []byte) {
	for at := 0; at < len(memory); at += pageSize {
		memory[at] = byte(at / pageSize)
	}
}
