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

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/conn"
)

var _ transport.Microbenchmarker = Driver{}

// microbenchmark is a bulk transfer with the options of the user, changed in one way.
type microbenchmark struct {
	name     string
	change   func(*settings) // nil for the raw stream
	baseline string
}

const (
	microRaw   = "raw-stream" // the same sockets and source without the transport
	microAsync = "stream-async-launch"
)

var microbenchmarks = []microbenchmark{
	{name: microRaw},
	{name: "stream", change: func(*settings) {}},
	{name: "stream-no-unpack", change: func(s *settings) { s.memory.Unpack = bounce.UnpackNone }},
	{name: microAsync, change: func(s *settings) { s.launch(false) }},
	{name: "stream-sync-launch", change: func(s *settings) { s.launch(true) },
		baseline: microAsync},
	{name: "stream-one-request",
		change: func(s *settings) { s.sendWindow, s.receiveWindow = 1, 1 }},
}

// launch sets whether a launch of the unpacker waits, which shows only with a thread that unpacks.
func (s *settings) launch(sync bool) {
	s.memory.Sync, s.memory.Workers = sync, max(1, s.memory.Workers)
}

// Microbenchmarks implements [transport.Microbenchmarker].
func (Driver) Microbenchmarks() (names []string) {
	for _, m := range microbenchmarks {
		names = append(names, m.name)
	}
	return names
}

// Microbenchmark implements [transport.Microbenchmarker]: it streams requests between two threads
// in the mode of the options, and bytes without the transport.
func (Driver) Microbenchmark(ctx context.Context, options transport.Values,
	wanted func(string) bool, d time.Duration, report func(transport.Measurement) error) error {
	return name.Error("micro", measure(ctx, options, wanted, d, report))
}

func measure(ctx context.Context, options transport.Values, wanted func(string) bool,
	d time.Duration, report func(transport.Measurement) error) (err error) {
	s, err := resolve(transport.Config{Options: options})
	if err != nil {
		return err
	}
	if err := s.memory.Available(); err != nil {
		return err
	}
	source, err := newSource()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(source)) }()
	for _, m := range microbenchmarks {
		if !wanted(m.name) {
			continue
		}
		result, err := m.run(ctx, *s, source, d)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err == nil {
			err = report(result)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m microbenchmark) run(ctx context.Context, s settings, source []byte,
	d time.Duration) (result transport.Measurement, err error) {
	result = transport.Measurement{Name: m.name, Size: s.chunk, Baseline: m.baseline}
	if m.change == nil {
		var f transport.Floor
		f, result.Bandwidth, err = rawStream(ctx, &s, source, d)
		result.Latency, result.Samples = f.RoundTrip/2, f.Samples
	} else {
		m.change(&s)
		result.Samples, result.Bandwidth, err = bulkTransfer(ctx, &s, source, d)
	}
	result.Rate = result.Bandwidth / float64(s.chunk)
	return result, err
}

// footprint is the size in bytes of a cold source and of a bulk transfer's destination.
const footprint = 64 << 20

// newSides makes two sides of a transfer, of which the second has a destination of that many bytes.
func newSides(s *settings, destination int) (a, b *conn.Side, err error) {
	return conn.NewSides(s.connConfig(0), &s.sock, s.zeroCopyTo(s.sock.Address), destination,
		s.memory.Open)
}

// bulkTransfer sends from one thread to another for about d. It returns the number of requests and
// the bandwidth in bytes per second, from the first receive posted to the last consumed.
func bulkTransfer(ctx context.Context, s *settings, source []byte, d time.Duration) (requests int,
	bandwidth float64, err error) {
	a, b, err := newSides(s, footprint)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, a.Close(), b.Close()) }()
	touch(b.Destination.Host[:min(footprint, len(b.Destination.Host))])
	touch(b.Memory())
	var bytes int
	err = onTwoThreads(ctx,
		func(ctx context.Context) error {
			stopped, release := stoppedBy(ctx)
			defer release()
			parts, start := s.parts(source, s.request), time.Now()
			return a.SendAll(stopped, 0, func() []byte {
				if time.Since(start) > d {
					return nil
				}
				return parts()
			})
		},
		func(ctx context.Context) (err error) {
			stopped, release := stoppedBy(ctx)
			defer release()
			slots := uint64(footprint / s.request)
			bytes, err = b.ReceiveAll(stopped, 0, func(number uint64) bounce.Buffer {
				return b.Destination.Slice(int(number%slots)*s.request, s.request)
			})
			return err
		})
	if err != nil {
		return 0, 0, fmt.Errorf("bulk transfer: %w", err)
	}
	k := &b.Counters
	took := time.Duration(k.LastConsume - k.FirstPost)
	return int(k.Consumes), float64(bytes) / took.Seconds(), nil
}

// parts returns a function that returns the parts of a source in turn, each of size bytes, again
// and again; with a hot source it always returns the first.
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

// onTwoThreads runs two functions on threads of their own. If one fails, its error ends the other's
// context.
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

// newSource makes the source of a transfer and touches its pages.
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
