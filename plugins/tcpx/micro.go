package tcpx

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

var _ transport.Microbenchmarker = Driver{}

// microbenchmark is a measurement with the options of the user, changed in one way.
type microbenchmark struct {
	name     string
	change   func(*settings)
	baseline string
}

var microbenchmarks = []microbenchmark{
	{name: microRaw},
	{name: "stream", change: func(*settings) {}},
	{name: "stream-no-unpack", change: func(s *settings) { s.unpack = unpackNone }},
	{name: microAsync, change: func(s *settings) {
		s.launch, s.unpackWorkers = launchAsync,
			max(1, s.unpackWorkers)
	}},
	{name: "stream-sync-launch", change: func(s *settings) {
		s.launch, s.unpackWorkers = launchSync,
			max(1, s.unpackWorkers)
	},
		baseline: microAsync},
	{name: "stream-one-request", change: func(s *settings) {
		s.sendWindow, s.receiveWindow = 1,
			1
	}},
}

const microAsync = "stream-async-launch"

// microRaw is the floor: the same sockets and source without the transport.
const microRaw = "raw-stream"

// Microbenchmarks implements [transport.Microbenchmarker].
func (Driver) Microbenchmarks() (names []string) {
	for _, m := range microbenchmarks {
		names = append(names, m.name)
	}
	return names
}

// Microbenchmark implements [transport.Microbenchmarker]: it streams requests between two
// threads in the mode of the options, and bytes without the transport.
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
	if err := s.mode.available(s); err != nil {
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
		if err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		if err := report(result); err != nil {
			return err
		}
	}
	return nil
}

func (m microbenchmark) run(ctx context.Context, s settings, source []byte,
	d time.Duration) (transport.Measurement, error) {
	result := transport.Measurement{Name: m.name, Size: s.chunk, Baseline: m.baseline}
	if m.change == nil {
		f, err := rawStream(ctx, &s, source, d)
		result.Latency, result.Samples, result.Bandwidth = f.RoundTrip/2, f.Samples, f.bandwidth
		result.Rate = f.bandwidth / float64(s.chunk)
		return result, err
	}
	m.change(&s)
	r, err := bulkTransfer(ctx, &s, source, d)
	if err != nil {
		return result, err
	}
	result.Samples, result.Bandwidth = int(r.receive.Consumes), r.bandwidth()
	result.Rate = r.bandwidth() / float64(s.chunk)
	return result, nil
}
