package rank

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

// storm makes and drops connections at a rate while a window measures, on a thread of its own
// beside the polling threads. Each connection has both of its sides here: two transports are
// opened, connected, used for one call, and closed. So it takes none of the few peer numbers of a
// measured worker.
type storm struct {
	open  func(ctx context.Context, rank int) (transport.Transport, error)
	size  int
	every time.Duration
	clock *machine.Clock

	report        record.StormReport
	connect, shut *loop.Timing
}

// stormTimeout bounds one connection.
const stormTimeout = 5 * time.Second

// newStorm returns nil if the load is no storm.
func (r *Rank) newStorm() *storm {
	cfg := r.plan.Config
	rate := cfg.Traffic.StormRate()
	if rate == 0 || !cfg.Calls(r.plan.Rank) {
		return nil
	}
	every := time.Duration(float64(cfg.CallingRanks()) / rate * float64(time.Second))
	s := &storm{size: kv.HeaderSize + cfg.ValueSize.Min(), every: every,
		clock: machine.Calibrated(), connect: loop.NewTiming(), shut: loop.NewTiming()}
	s.open = func(ctx context.Context, rank int) (transport.Transport, error) {
		options, err := transport.ParseOptions(r.driver.Info().Options, cfg.Options)
		if err != nil {
			return nil, err
		}
		return r.driver.Open(ctx, transport.Config{
			Rank: rank, Workers: 1, Peers: 1, InFlight: 1,
			MaxPayload: cfg.LargestMessage(), HostPrefix: kv.HeaderSize, Crosses: r.plan.Crosses,
			Options: options, Logger: r.logger,
		})
	}
	return s
}

// run makes connections until measuring is false. Connections that become due during a slow one are
// made after it, one at a time.
func (s *storm) run(ctx context.Context, measuring func() bool) *record.StormReport {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := descriptors()
	begun, seen := time.Now(), time.Duration(0)
	for measuring() {
		seen = time.Since(begun)
		due := begun.Add(time.Duration(s.report.Connections+s.report.Failed) * s.every)
		if wait := time.Until(due); wait > 0 {
			time.Sleep(min(wait, time.Millisecond))
			continue
		}
		if err := s.once(ctx); err != nil {
			if s.report.Failed++; s.report.Error == "" {
				s.report.Error = err.Error()
			}
		} else {
			s.report.Connections++
		}
	}
	s.report.Due = max(uint64(seen/s.every)+1, s.report.Connections+s.report.Failed)
	s.report.Leaked = max(0, descriptors()-before)
	s.report.Connect, s.report.Close = s.connect.Report(s.clock), s.shut.Report(s.clock)
	return &s.report
}

// once makes a connection, calls once and drops it.
func (s *storm) once(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, stormTimeout)
	defer cancel()
	var closers []func() error
	start := s.clock.Now()
	defer func() {
		connected := s.clock.Now()
		for i := range closers { // the client first, then what it has used
			err = errors.Join(err, closers[len(closers)-1-i]())
		}
		if err == nil {
			s.connect.Record(s.clock, connected-start)
			s.shut.Record(s.clock, s.clock.Now()-connected)
		}
	}()
	var workers [2]transport.Worker
	for rank := range workers {
		t, err := s.open(ctx, rank)
		if err != nil {
			return err
		}
		closers = append(closers, t.Close)
		if workers[rank], err = t.NewWorker(0); err != nil {
			return err
		}
		closers = append(closers, workers[rank].Close)
	}
	for rank, w := range workers {
		if err := w.Connect(ctx, 0, workers[1-rank].Address()); err != nil {
			return err
		}
	}
	return s.call(ctx, workers[1], workers[0])
}

// call sends one request from client to server and waits for its echo.
func (s *storm) call(ctx context.Context, client, server transport.Worker) error {
	payload := make([]byte, s.size)
	if err := post(ctx, client, transport.Op{Kind: transport.OpCall,
		Payload: payload}); err != nil {
		return err
	}
	events := make([]transport.Event, 4)
	for ctx.Err() == nil {
		n, err := server.Poll(events)
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			if e.Kind != transport.EventRequest {
				return fmt.Errorf("the server polled an event of kind %d", e.Kind)
			}
			if err := post(ctx, server, transport.Op{Kind: transport.OpReply, Peer: e.Peer,
				Token: e.Token, Payload: payload}); err != nil {
				return err
			}
		}
		if n, err = client.Poll(events); err != nil {
			return err
		}
		for _, e := range events[:n] {
			if e.Kind != transport.EventResponse {
				return fmt.Errorf("the client polled an event of kind %d", e.Kind)
			}
			return nil
		}
		if n == 0 {
			runtime.Gosched()
		}
	}
	return fmt.Errorf("a call on a new connection was not answered within %v", stormTimeout)
}

// post posts one op, and tries again while the worker has no room.
func post(ctx context.Context, w transport.Worker, op transport.Op) error {
	for ctx.Err() == nil {
		n, err := w.Post([]transport.Op{op})
		if err == nil && n == 1 {
			return w.Flush()
		}
		if err != nil {
			return err
		}
		runtime.Gosched()
	}
	return fmt.Errorf("a new connection took no message within %v", stormTimeout)
}

// descriptors returns the number of open descriptors of the process.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// startStorm starts the storm of a window, if the load has one. The caller calls the function that
// it returns after the window.
func (r *Rank) startStorm(ctx context.Context,
	window record.Window) (finish func() *record.StormReport) {
	s := r.newStorm()
	if s == nil || window.Warmup {
		return func() *record.StormReport { return nil }
	}
	done := make(chan *record.StormReport, 1)
	go func() {
		for r.state.Now() == record.StateReady {
			time.Sleep(time.Millisecond)
		}
		done <- s.run(ctx, r.state.Measuring)
	}()
	return func() *record.StormReport { return <-done }
}
