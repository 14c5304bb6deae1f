package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// Server is the plugin's end of the control service: it calls a rank for the host.
type Server struct {
	description json.RawMessage
	newRank     func() record.Control

	mu   sync.Mutex
	rank record.Control // nil before the first call and after Close

	// Every call except Advance holds calls for reading; closing the rank holds it for writing.
	calls sync.RWMutex
}

// NewServer returns a server of ranks that newRank makes, one at a time. The host gets
// description, which is JSON, as the answer to Describe.
func NewServer(description []byte, newRank func() record.Control) *Server {
	return &Server{description: description, newRank: newRank}
}

// Register adds the control service to registrar.
func (s *Server) Register(registrar grpc.ServiceRegistrar) {
	registrar.RegisterService(&serviceDesc, s)
}

// current returns the rank, and makes one if there is none.
func (s *Server) current() record.Control {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rank == nil {
		s.rank = s.newRank()
	}
	return s.rank
}

// take returns the rank, or nil if there is none, and forgets it.
func (s *Server) take() record.Control {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rank
	s.rank = nil
	return r
}

// Shutdown stops the rank, waits until no other call is in progress, and closes the rank. It does
// nothing if there is no rank. It returns when ctx ends, even if the rank does not.
func (s *Server) Shutdown(ctx context.Context) error {
	r := s.take()
	if r == nil {
		return nil
	}
	closed := make(chan error, 1)
	go func() {
		// The call of Run returns once the window has stopped.
		stopErr := r.Advance(ctx, record.StateStopped)
		s.calls.Lock()
		defer s.calls.Unlock()
		closed <- errors.Join(stopErr, r.Close(ctx))
	}()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) describe(context.Context, none) (json.RawMessage, error) {
	return s.description, nil
}

// prepare makes a new rank. In a plugin that runs under a debugger, a host that vanished may have
// left a rank; prepare closes it first.
func (s *Server) prepare(ctx context.Context, plan record.Plan) (record.Prepared, error) {
	if err := s.Shutdown(ctx); err != nil {
		return record.Prepared{}, fmt.Errorf("closing the rank of an earlier host: %w", err)
	}
	s.calls.RLock()
	defer s.calls.RUnlock()
	return s.current().Prepare(ctx, plan)
}

func (s *Server) connect(ctx context.Context, workers []record.RankWorkers) (none, error) {
	s.calls.RLock()
	defer s.calls.RUnlock()
	return none{}, s.current().Connect(ctx, workers)
}

func (s *Server) overhead(ctx context.Context, d time.Duration) (record.Overhead, error) {
	s.calls.RLock()
	defer s.calls.RUnlock()
	return s.current().Overhead(ctx, d)
}

func (s *Server) probe(ctx context.Context, probe record.Probe) (transport.Floor, error) {
	s.calls.RLock()
	defer s.calls.RUnlock()
	return s.current().Probe(ctx, probe)
}

func (s *Server) advance(ctx context.Context, to record.State) (none, error) {
	return none{}, s.current().Advance(ctx, to)
}

func (s *Server) close(ctx context.Context, _ none) (none, error) { return none{}, s.Shutdown(ctx) }

// run runs one window and sends its events. When the stream breaks, its context ends the rank's
// run, and run waits for that end because a rank runs one window at a time.
func (s *Server) run(window record.Window, stream grpc.ServerStream) error {
	s.calls.RLock()
	defer s.calls.RUnlock()
	var (
		started  = make(chan struct{})
		progress = make(chan record.Progress, 1) // holds the newest that is not sent yet
		done     = make(chan struct{})
		report   record.Report
		runErr   error
	)
	go func() {
		defer close(done)
		var once sync.Once
		report, runErr = s.current().Run(stream.Context(), window,
			func() { once.Do(func() { close(started) }) },
			func(p record.Progress) { replace(progress, p) })
	}()

	var sendErr error
	send := func(e event) {
		if sendErr == nil {
			sendErr = stream.SendMsg(e)
		}
	}
	// The rank calls started before progress, so started goes first if both are ready.
	pending := started
	sendStarted := func() {
		select {
		case <-pending:
			pending = nil
			send(event{Started: true})
		default:
		}
	}
	for running := true; running; {
		select {
		case <-pending:
			sendStarted()
		case p := <-progress:
			sendStarted()
			send(event{Progress: &p})
		case <-done:
			running = false
		}
	}
	sendStarted()
	select {
	case p := <-progress: // the last one may report that the clients have drained
		send(event{Progress: &p})
	default:
	}
	send(event{Report: &report, Error: encodeFailure(runErr, 0)})
	if sendErr != nil {
		return errors.Join(runErr, sendErr)
	}
	return nil
}

// replace puts p into newest, a channel that holds one value, in place of a value that nobody has
// received. It never blocks when there is a single sender.
func replace(newest chan record.Progress, p record.Progress) {
	for {
		select {
		case newest <- p:
			return
		default:
		}
		select {
		case <-newest:
		default:
		}
	}
}
