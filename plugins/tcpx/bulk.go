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

	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/conn"
)

// footprint is the size in bytes of a cold source and of a bulk transfer's destination.
const footprint = 64 << 20

// newSides makes two sides of a transfer, of which the second has a destination of that many bytes.
func newSides(s *settings, destination int) (a, b *conn.Side, err error) {
	return conn.NewSides(s.conn(0), &s.sock, s.zeroCopyTo(s.sock.Address), destination, s.newBounce)
}

// bulkReading is the result of a bulk transfer.
type bulkReading struct {
	bytes      int
	elapsed    time.Duration // first receive posted to last consumed
	send       conn.Counters
	receive    conn.Counters
	sendCPU    time.Duration // of the sending thread
	receiveCPU time.Duration // of the receiving thread, without unpack workers
}

// bandwidth is in bytes per second.
func (r bulkReading) bandwidth() float64 { return float64(r.bytes) / r.elapsed.Seconds() }

// bulkTransfer sends from one thread to another for about d, from a source of the
// footprint that the settings ask for.
func bulkTransfer(ctx context.Context, s *settings, source []byte, d time.Duration) (r bulkReading,
	err error) {
	a, b, err := newSides(s, footprint)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, a.Close(), b.Close()) }()
	touch(b.Destination.Host[:min(footprint, len(b.Destination.Host))])
	touch(b.Memory())
	send := func(ctx context.Context) error {
		stopped, release := stoppedBy(ctx)
		defer release()
		parts, start := s.parts(source, s.request), time.Now()
		before := threadTime()
		defer func() { r.sendCPU = threadTime() - before }()
		return a.SendAll(stopped, 0, func() []byte {
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
		r.bytes, err = b.ReceiveAll(stopped, 0, func(number uint64) bounce.Buffer {
			return b.Destination.Slice(int(number%slots)*s.request, s.request)
		})
		return err
	}
	if err := onTwoThreads(ctx, send, receive); err != nil {
		return r, fmt.Errorf("bulk transfer: %w", err)
	}
	r.send, r.receive = a.Counters, b.Counters
	r.elapsed = time.Duration(b.Counters.LastConsume - b.Counters.FirstPost)
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
