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
	"transportbench/core/plugin/controlpb"
)

// Server is the plugin's end: it calls a rank on behalf of the host.
type Server struct {
	controlpb.UnimplementedControlServer

	description []byte
	newRank     func() record.Control

	mu   sync.Mutex
	rank record.Control // nil before the first call and after Close

	// calls is held for reading by every call that is under way, but for Advance,
	// and for writing by the one that closes the rank.
	calls sync.RWMutex
}

// NewServer serves ranks that newRank makes, one at a time. description is what
// Describe answers, in JSON.
func NewServer(description []byte, newRank func() record.Control) *Server {
	return &Server{description: description, newRank: newRank}
}

// current returns the rank, making it where there is none.
func (s *Server) current() record.Control {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rank == nil {
		s.rank = s.newRank()
	}
	return s.rank
}

// take returns the rank and forgets it; nil where there is none.
func (s *Server) take() record.Control {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rank
	s.rank = nil
	return r
}

// Shutdown stops and closes the rank that there may be, once no other call is
// under way. It returns when that is done or ctx ends, also where the rank heeds
// neither.
func (s *Server) Shutdown(ctx context.Context) error {
	r := s.take()
	if r == nil {
		return nil
	}
	closed := make(chan error, 1)
	go func() {
		// A phase under way is a call under way.
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

// Describe implements [controlpb.ControlServer].
func (s *Server) Describe(context.Context, *controlpb.DescribeRequest) (*controlpb.DescribeResponse, error) {
	return &controlpb.DescribeResponse{Description: s.description}, nil
}

// Prepare implements [controlpb.ControlServer]. It begins with a new rank. One that is left of a host which vanished,
// in a plugin that runs under a debugger, is closed first.
func (s *Server) Prepare(ctx context.Context, req *controlpb.PrepareRequest) (*controlpb.PrepareResponse, error) {
	var plan record.Plan
	if err := decode("plan", req.GetPlan(), &plan); err != nil {
		return nil, toStatus(err)
	}
	if err := s.Shutdown(ctx); err != nil {
		return nil, toStatus(fmt.Errorf("closing the rank of an earlier host: %w", err))
	}
	s.calls.RLock()
	defer s.calls.RUnlock()
	prepared, err := s.current().Prepare(ctx, plan)
	data, err := encode("prepared", prepared, err)
	return &controlpb.PrepareResponse{Prepared: data}, toStatus(err)
}

// Connect implements [controlpb.ControlServer].
func (s *Server) Connect(ctx context.Context, req *controlpb.ConnectRequest) (*controlpb.ConnectResponse, error) {
	var workers []record.RankWorkers
	if err := decode("workers", req.GetWorkers(), &workers); err != nil {
		return nil, toStatus(err)
	}
	s.calls.RLock()
	defer s.calls.RUnlock()
	return &controlpb.ConnectResponse{}, toStatus(s.current().Connect(ctx, workers))
}

// Overhead implements [controlpb.ControlServer].
func (s *Server) Overhead(ctx context.Context, req *controlpb.OverheadRequest) (*controlpb.OverheadResponse, error) {
	s.calls.RLock()
	defer s.calls.RUnlock()
	overhead, err := s.current().Overhead(ctx, time.Duration(req.GetDurationNs()))
	data, err := encode("overhead", overhead, err)
	return &controlpb.OverheadResponse{Overhead: data}, toStatus(err)
}

// Probe implements [controlpb.ControlServer].
func (s *Server) Probe(ctx context.Context, req *controlpb.ProbeRequest) (*controlpb.ProbeResponse, error) {
	var probe record.Probe
	if err := decode("probe", req.GetProbe(), &probe); err != nil {
		return nil, toStatus(err)
	}
	s.calls.RLock()
	defer s.calls.RUnlock()
	floor, err := s.current().Probe(ctx, probe)
	data, err := encode("floor", floor, err)
	return &controlpb.ProbeResponse{Floor: data}, toStatus(err)
}

// Advance implements [controlpb.ControlServer].
func (s *Server) Advance(ctx context.Context, req *controlpb.AdvanceRequest) (*controlpb.AdvanceResponse, error) {
	return &controlpb.AdvanceResponse{}, toStatus(s.current().Advance(ctx, record.State(req.GetStage())))
}

// Close implements [controlpb.ControlServer].
func (s *Server) Close(ctx context.Context, _ *controlpb.CloseRequest) (*controlpb.CloseResponse, error) {
	return &controlpb.CloseResponse{}, toStatus(s.Shutdown(ctx))
}

// Run implements [controlpb.ControlServer].
func (s *Server) Run(req *controlpb.RunRequest, stream grpc.ServerStreamingServer[controlpb.RunEvent]) error {
	var phase record.Window
	if err := decode("phase", req.GetPhase(), &phase); err != nil {
		return toStatus(err)
	}
	s.calls.RLock()
	defer s.calls.RUnlock()
	r := newRun(stream)
	go r.run(s.current(), phase)
	return toStatus(r.forward())
}

// run decouples the rank's callbacks, which must not block, from a stream that
// may.
type run struct {
	stream   grpc.ServerStreamingServer[controlpb.RunEvent]
	started  chan struct{}        // closed by the callback
	progress chan record.Progress // the newest only
	done     chan outcome
	told     bool // started has been sent
}

type outcome struct {
	report record.Report
	err    error
}

func newRun(stream grpc.ServerStreamingServer[controlpb.RunEvent]) *run {
	return &run{
		stream:   stream,
		started:  make(chan struct{}),
		progress: make(chan record.Progress, 1),
		done:     make(chan outcome, 1),
	}
}

func (r *run) run(control record.Control, phase record.Window) {
	var once sync.Once
	started := func() { once.Do(func() { close(r.started) }) }
	report, err := control.Run(r.stream.Context(), phase, started, r.offer)
	r.done <- outcome{report, err}
}

// offer replaces a progress that has not been sent yet. The last one is always
// sent: nothing replaces it, and forward looks for it before it ends.
func (r *run) offer(p record.Progress) {
	for {
		select {
		case r.progress <- p:
			return
		default:
		}
		select {
		case <-r.progress:
		default:
		}
	}
}

// forward sends events until the rank is done. Where the stream breaks, its
// context ends the rank's run, and that end is awaited: a rank has one phase at
// a time.
func (r *run) forward() error {
	var broken error
	send := func(e *controlpb.RunEvent) {
		if broken == nil {
			broken = r.stream.Send(e)
		}
	}
	tell := func(p record.Progress) {
		if data, err := encode("progress", p, nil); err == nil {
			send(&controlpb.RunEvent{Event: &controlpb.RunEvent_Progress{Progress: data}})
		}
	}
	started := r.started
	for {
		select {
		case <-started:
			started = nil
			r.tellStarted(send)
		case p := <-r.progress:
			r.tellStarted(send)
			tell(p)
		case out := <-r.done:
			r.tellStarted(send)
			select {
			case p := <-r.progress: // the last one must not be lost: it may say drained
				tell(p)
			default:
			}
			data, err := encode("report", out.report, nil)
			if err != nil {
				return errors.Join(out.err, err)
			}
			send(&controlpb.RunEvent{Event: &controlpb.RunEvent_Report{Report: data}})
			if out.err != nil {
				return out.err
			}
			return broken
		}
	}
}

// tellStarted sends started before anything else, once, and only where the rank
// has said so.
func (r *run) tellStarted(send func(*controlpb.RunEvent)) {
	select {
	case <-r.started:
	default:
		return
	}
	if !r.told {
		r.told = true
		send(&controlpb.RunEvent{Event: &controlpb.RunEvent_Started{Started: &controlpb.Started{}}})
	}
}

func decode(what string, data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading %s: %w; host and plugin are of different versions", what, err)
	}
	return nil
}

// encode passes err on, so that a call and its encoding are one step.
func encode(what string, value any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", what, err)
	}
	return data, nil
}
