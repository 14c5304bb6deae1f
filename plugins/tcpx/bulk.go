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

	"transportbench/core/fabric/sock"
	"transportbench/core/fabric/spin"
	"transportbench/plugins/tcpx/internal/bounce"
)

// footprint is the size in bytes of a cold source and of a bulk transfer's destination.
const footprint = 64 << 20

// bulkSide is one side of a bulk transfer: a connection without messages and its bounce
// memory. `transportbench micro tcpx` measures it.
type bulkSide struct {
	conn        *conn
	memory      bounce.Allocator
	unpacker    *bounce.Slots
	destination bounce.Buffer
	counters    counters
}

// newBulkSides makes two sides that are connected over the option address. The second has a
// destination of size bytes.
func newBulkSides(s *settings, size int) (a, b *bulkSide, err error) {
	near, far, err := s.sock.Pairs(s.sockets + 1)
	if err != nil {
		return nil, nil, err
	}
	if a, err = newBulkSide(s, near, 0); err != nil {
		return nil, nil, errors.Join(err, sock.CloseAll(far))
	}
	if b, err = newBulkSide(s, far, size); err != nil {
		return nil, nil, errors.Join(err, a.close())
	}
	return a, b, nil
}

func newBulkSide(s *settings, sockets []int, destination int) (*bulkSide, error) {
	memory, unpacker, err := s.newBounce()
	if err != nil {
		return nil, errors.Join(err, sock.CloseAll(sockets))
	}
	b := &bulkSide{memory: memory, unpacker: unpacker}
	bounce.MoreThreads(s.threads)
	b.conn = newConn(s, memory, unpacker, 0, &b.counters)
	err = b.conn.attach(sockets[0], sockets[1:])
	if err == nil && s.zeroCopyTo(s.sock.Address) {
		err = b.conn.useZeroCopy()
	}
	if err == nil {
		err = b.conn.startHelpers(nil)
	}
	if err == nil && destination > 0 {
		b.destination, err = unpacker.Allocate(destination)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// close releases everything. It waits for what is being unpacked.
func (b *bulkSide) close() error {
	err := b.conn.close()
	b.conn.release(true)
	bounce.MoreThreads(-b.conn.settings.threads)
	if b.destination.Size > 0 {
		err = errors.Join(err, b.unpacker.Free(b.destination))
		b.destination = bounce.Buffer{}
	}
	return errors.Join(err, b.unpacker.Close(), b.memory.Close())
}

// progress moves bytes in both directions.
func (b *bulkSide) progress() error {
	if err := b.conn.pumpIn(); err != nil {
		return err
	}
	if err := b.conn.pumpOut(b.conn.mayHoldCredits()); err != nil {
		return err
	}
	return b.conn.finishPoll()
}

// send sends what next returns, request by request, until next returns nil, and then an
// empty request that ends the transfer. The memory must not change until send returns.
func (b *bulkSide) send(stopped *atomic.Bool, tag uint64, next func() []byte) error {
	c := b.conn
	window := uint64(c.settings.sendWindow)
	var wait spin.Wait
	for more := true; more || c.sendFreed < c.sendPosted; {
		c.stall.windowFull = false
		for more && c.sendPosted-c.sendFreed < window {
			part := next()
			more = len(part) > 0
			if err := c.postSend(part, 0, tag+c.sendPosted); err != nil {
				return err
			}
		}
		c.stall.windowFull = more
		before := c.counters.sentBytes
		if err := b.progress(); err != nil {
			return err
		}
		freed := c.sendFreed
		for c.freeSend() {
		}
		if err := stepped(stopped, &wait, freed == c.sendFreed &&
			before == c.counters.sentBytes); err != nil {
			return err
		}
	}
	return nil
}

// receive receives a transfer, each request into what next returns for its number, and
// returns the bytes of the transfer.
func (b *bulkSide) receive(stopped *atomic.Bool, tag uint64,
	next func(number uint64) bounce.Buffer) (bytes int, err error) {
	c := b.conn
	window := uint64(c.settings.receiveWindow)
	var wait spin.Wait
	for ended := false; !ended; {
		for c.receivePosted-c.receiveConsumed < window {
			if err := c.postReceive(next(c.receivePosted), tag+c.receivePosted); err != nil {
				return bytes, err
			}
		}
		before := c.counters.receivedBytes
		if err := b.progress(); err != nil {
			return bytes, err
		}
		consumed := c.receiveConsumed
		for !ended {
			_, size, ok, err := c.consume()
			if err != nil {
				return bytes, err
			}
			if !ok {
				break
			}
			bytes += size
			ended = size == 0
		}
		if err := stepped(stopped, &wait, consumed == c.receiveConsumed &&
			before == c.counters.receivedBytes); err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

var errStopped = errors.New("stopped")

// stepped is called after each step of a loop. It returns errStopped if the loop is to stop.
func stepped(stopped *atomic.Bool, wait *spin.Wait, idle bool) error {
	if idle {
		wait.IdleCall()
	} else {
		wait.Found()
	}
	if stopped.Load() {
		return errStopped
	}
	return nil
}

// bulkReading is the result of a bulk transfer.
type bulkReading struct {
	bytes      int
	elapsed    time.Duration // first receive posted to last consumed
	send       counters
	receive    counters
	sendCPU    time.Duration // of the sending thread
	receiveCPU time.Duration // of the receiving thread, without unpack workers
}

// bandwidth is in bytes per second.
func (r bulkReading) bandwidth() float64 { return float64(r.bytes) / r.elapsed.Seconds() }

// bulkTransfer sends from one thread to another for about d, from a source of the
// footprint that the settings ask for.
func bulkTransfer(ctx context.Context, s *settings, source []byte, d time.Duration) (r bulkReading,
	err error) {
	a, b, err := newBulkSides(s, footprint)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, a.close(), b.close()) }()
	touch(b.destination.Host[:min(footprint, len(b.destination.Host))])
	touch(b.memory.Memory())
	send := func(ctx context.Context) error {
		stopped, release := stoppedBy(ctx)
		defer release()
		parts, start := s.parts(source, s.request), time.Now()
		before := threadTime()
		defer func() { r.sendCPU = threadTime() - before }()
		return a.send(stopped, 0, func() []byte {
			if time.Since(start) > d {
				return nil
			}
			return parts()
		})
	}
	receive := func(ctx context.Context) (err error) {
		stopped, release := stoppedBy(ctx)
		defer release()
		slots := uint64(footprint / s.request)
		before := threadTime()
		defer func() { r.receiveCPU = threadTime() - before }()
		r.bytes, err = b.receive(stopped, 0, func(number uint64) bounce.Buffer {
			return b.destination.Slice(int(number%slots)*s.request, s.request)
		})
		return err
	}
	if err := onTwoThreads(ctx, send, receive); err != nil {
		return r, fmt.Errorf("bulk transfer: %w", err)
	}
	r.send, r.receive = a.counters, b.counters
	r.elapsed = time.Duration(b.counters.lastConsume - b.counters.firstPost)
	return r, nil
}

// parts returns a function that returns the parts of a source in turn, each of size bytes,
// again and again; with a hot source it always returns the first.
func (s *settings) parts(source []byte, size int) func() []byte {
	at := 0
	return func() []byte {
		if s.hotSource || at+size > len(source) {
			at = 0
		}
		part := source[at : at+size]
		at += size
		return part
	}
}

// onTwoThreads runs two functions on threads of their own. If one fails, its error ends the
// other's context.
func onTwoThreads(ctx context.Context, functions ...func(context.Context) error) error {
	both, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	errs := make([]error, len(functions))
	var threads sync.WaitGroup
	for i, f := range functions {
		threads.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if errs[i] = f(both); errs[i] != nil {
				stop(errs[i])
			}
		})
	}
	threads.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// stoppedBy returns a flag that is set when ctx ends, for loops that check it often.
func stoppedBy(ctx context.Context) (stopped *atomic.Bool, release func() bool) {
	stopped = new(atomic.Bool)
	return stopped, context.AfterFunc(ctx, func() { stopped.Store(true) })
}

// threadTime returns the CPU time of this thread. getrusage(2) may count in ticks; this is
// exact.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// newSource makes the source of a transfer or a floor and touches its pages.
func newSource() ([]byte, error) {
	source, err := unix.Mmap(-1, 0, footprint, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("a source of %d bytes: mmap: %w", footprint, err)
	}
	touch(source)
	return source, nil
}

// touch writes to every page, so that each is allocated and different.
func touch(memory []byte) {
	for at := 0; at < len(memory); at += pageSize {
		memory[at] = byte(at / pageSize)
	}
}
