package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// setupPatience is how long a first call may take.
const setupPatience = 5 * time.Second

// setUpAgain takes rounds of each number of connections for about d, and reports each round.
func setUpAgain(ctx context.Context, driver transport.Driver, options transport.Values,
	connections []int, d time.Duration, report func(*record.SetupReading) error) error {
	// Some libraries bind what they make to the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, n := range connections {
		began := time.Now()
		for round := 0; round < record.MinSetups || round < record.MaxSetups &&
			time.Since(began) < d; round++ {
			reading, err := setUpOnce(ctx, driver, options, n)
			if err != nil {
				return fmt.Errorf("%s: round %d with %d connections: %w", record.MicroSetup,
					round+1, n, err)
			}
			if err := report(reading); err != nil {
				return err
			}
		}
	}
	return nil
}

// side is one of the two endpoints.
type side struct {
	transport transport.Transport
	workers   []transport.Worker
}

func (s *side) open(ctx context.Context, driver transport.Driver,
	cfg transport.Config) (open, workers time.Duration, err error) {
	began := time.Now()
	opening, err := driver.Open(ctx, cfg)
	if err != nil {
		return 0, 0, err
	}
	s.transport = opening
	opened := time.Now()
	for i := range cfg.Workers {
		w, err := s.transport.NewWorker(i)
		if err != nil {
			return 0, 0, err
		}
		s.workers = append(s.workers, w)
	}
	return opened.Sub(began), time.Since(opened), nil
}

func (s *side) close() error {
	if s.transport == nil {
		return nil
	}
	var errs []error
	for _, w := range s.workers {
		errs = append(errs, w.Close())
	}
	return errors.Join(append(errs, s.transport.Close())...)
}

// setUpOnce takes one round.
func setUpOnce(ctx context.Context, driver transport.Driver, options transport.Values,
	connections int) (_ *record.SetupReading, err error) {
	servers, clients := record.SetupGrid(connections)
	cfg := transport.Config{InFlight: 1, MaxPayload: record.SetupPayload, Options: options,
		Logger: slog.New(slog.DiscardHandler)}
	var serving, calling side
	r := new(record.SetupReading)
	defer func() {
		began := time.Now()
		err = errors.Join(err, calling.close(), serving.close())
		r.CloseNS = since(began)
	}()
	cfg.Workers, cfg.Peers = servers, clients
	if _, _, err := serving.open(ctx, driver, cfg); err != nil {
		return nil, err
	}
	cfg.Rank, cfg.Workers, cfg.Peers = 1, clients, servers
	open, workers, err := calling.open(ctx, driver, cfg)
	if err != nil {
		return nil, err
	}
	r.OpenNS, r.WorkersNS = uint64(open), uint64(workers)
	if err := connectAll(ctx, &serving, &calling, &r.RankSetup); err != nil {
		return nil, err
	}
	r.ReadRegistrations(calling.transport)
	return r, callAll(ctx, &serving, &calling, &r.RankSetup)
}

// since returns the time since then, at least 1 ns, as something was done.
func since(began time.Time) uint64 { return uint64(max(time.Since(began), 1)) }

// connectAll connects each worker with each of the other side. The time of one call is that of the
// calling side, and that of all that of both.
func connectAll(ctx context.Context, serving, calling *side, r *record.RankSetup) error {
	all := time.Now()
	for i, client := range calling.workers {
		for j, server := range serving.workers {
			if err := server.Connect(ctx, transport.PeerID(i), client.Address()); err != nil {
				return err
			}
			began := time.Now()
			if err := client.Connect(ctx, transport.PeerID(j), server.Address()); err != nil {
				return err
			}
			took := since(began)
			r.Connections, r.ConnectNS, r.ConnectMaxNS = r.Connections+1, r.ConnectNS+took,
				max(r.ConnectMaxNS, took)
		}
	}
	r.ConnectAllNS = since(all)
	return nil
}

// callAll makes the first call on each connection, one after the other.
func callAll(ctx context.Context, serving, calling *side, r *record.RankSetup) error {
	var took []uint64
	for i, client := range calling.workers {
		for j, server := range serving.workers {
			began := time.Now()
			if err := callOnce(ctx, client, server, transport.PeerID(i),
				transport.PeerID(j)); err != nil {
				return fmt.Errorf("first call of worker %d to worker %d: %w", i, j, err)
			}
			took = append(took, since(began))
		}
	}
	slices.Sort(took)
	n := len(took)
	r.FirstCalls, r.FirstCallNS, r.FirstCallMaxNS = uint64(n), (took[(n-1)/2]+took[n/2])/2,
		took[n-1]
	return nil
}

// callOnce makes a call of the client and answers it on the server. from is the client's number at
// the server, and to the server's at the client.
func callOnce(ctx context.Context, client, server transport.Worker,
	from, to transport.PeerID) error {
	payload := make([]byte, record.SetupPayload)
	pending := []transport.Op{{Kind: transport.OpCall, Peer: to, Token: 1, Payload: payload}}
	var answer []transport.Op
	for began, polls := time.Now(), 0; ; polls++ {
		var err error
		if pending, err = postAll(client, pending); err != nil {
			return err
		}
		if answer, err = postAll(server, answer); err != nil {
			return err
		}
		asked, err := pollOne(server)
		if err != nil {
			return err
		}
		if asked.Kind == transport.EventRequest && asked.Peer == from {
			answer = []transport.Op{{Kind: transport.OpReply, Peer: from, Token: asked.Token,
				Payload: payload}}
			continue
		}
		done, err := pollOne(client)
		switch {
		case err != nil:
			return err
		case done.Kind == transport.EventResponse && done.Peer == to:
			return nil
		case done.Kind == transport.EventPeerLost || asked.Kind == transport.EventPeerLost:
			return transport.ErrPeerDown
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Since(began) > setupPatience:
			return fmt.Errorf("no answer within %v", setupPatience)
		}
		if polls%64 == 63 {
			runtime.Gosched() // libraries with goroutines and helper threads need the processor
		}
	}
}

// postAll posts and flushes ops, and returns those that the worker did not take.
func postAll(w transport.Worker, ops []transport.Op) ([]transport.Op, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	n, err := w.Post(ops)
	if err != nil {
		return nil, err
	}
	return ops[n:], w.Flush()
}

// pollOne returns the next event, or one without a kind.
func pollOne(w transport.Worker) (transport.Event, error) {
	var events [1]transport.Event
	n, err := w.Poll(events[:])
	if n == 0 {
		return transport.Event{}, err
	}
	return events[0], err
}
