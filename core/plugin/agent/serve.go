package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/hosts/path"
	"transportbench/core/lab/experiment/witness"
	"transportbench/core/plugin/host"
	"transportbench/core/plugin/internal/accept"
	"transportbench/core/plugin/internal/wire"
	"transportbench/core/transport"
)

const (
	minPingTime = 10 * time.Second // the least that gRPC allows
	minPing     = 5 * time.Second  // between pings of the coordinator
)

// pings returns how often an end is asked whether it is alive, and how long it may take to answer.
// One that answers nothing, such as a stopped process, is given up after one and a half times the
// silence that a host is allowed. A host that is gone is noticed earlier, by the kernel
// (core/lab/experiment/hosts). Ranks that spin on every processor may starve an agent for seconds.
func pings(silence time.Duration) (every, timeout time.Duration) {
	return max(silence, minPingTime), silence / 2
}

// ErrEnded is returned by Serve when the coordinator has ended the connection in order.
var ErrEnded = errors.New("the run has ended")

// Serve serves a coordinator over conn until the connection or ctx ends, and then ends all ranks.
// The coordinator may be silent for silence. Plugins are those in dirs. It returns [ErrEnded], the
// context's error, or how the connection broke.
func Serve(ctx context.Context, conn net.Conn, silence time.Duration, dirs []string) error {
	pingTime, pingTimeout := pings(silence)
	s := &server{dirs: dirs, plugins: map[wire.PluginRequest]*host.Plugin{},
		ranks: map[string]*rank{}, logs: make(chan string, logLines)}
	// A stopped agent cannot end its ranks when the coordinator gives it up.
	if below, ok := conn.(interface{ NetConn() net.Conn }); ok {
		if tcp, ok := below.NetConn().(*net.TCPConn); ok {
			release, err := host.EndWith(tcp)
			if err != nil {
				return err
			}
			defer release()
		}
	}
	watched := watch(conn)
	g := grpc.NewServer(
		grpc.MaxRecvMsgSize(longestRequest), grpc.MaxSendMsgSize(math.MaxInt32),
		// the coordinator says nothing until all agents have joined
		grpc.ConnectionTimeout(math.MaxInt64),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingTime, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing,
			PermitWithoutStream: true}),
	)
	wire.RegisterAgent(g, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(&oneConn{conn: watched, closed: watched.closed})
	}()
	select {
	case <-watched.closed:
	case <-ctx.Done():
	}
	s.killAll()
	g.Stop()
	<-served
	s.tools.Rest()
	s.paths.Close()
	switch err := watched.cause(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.over.Load():
		return ErrEnded
	case err == nil:
		return errors.New("it does not answer")
	case errors.Is(err, io.EOF):
		return errors.New("it ended without a word")
	default:
		return err
	}
}

// longestRequest bounds a message of the coordinator, in bytes. The largest has the addresses of
// all workers.
const longestRequest = 256 << 20

// maxCPUs bounds the processors of a State.
const maxCPUs = 1 << 16

// logLines is how many lines of plugins' logs wait for the coordinator; more are dropped and
// counted.
const logLines = 1024

// longestLog is where a line of a plugin's log is cut, in bytes.
const longestLog = 16 << 10

// server is an agent.
type server struct {
	dirs []string
	logs chan string
	// dropped counts lines of logs since the coordinator was last told.
	dropped atomic.Int64
	ended   atomic.Bool // no rank may start; set with mu locked
	over    atomic.Bool // the coordinator said so
	tools   witness.Local
	paths   path.Host

	mu      sync.Mutex
	plugins map[wire.PluginRequest]*host.Plugin
	ranks   map[string]*rank
	next    int
	starts  int // launches in progress
}

var _ wire.Agent = (*server)(nil)

// rank is a process that the agent has started.
type rank struct {
	*host.Process
	control *wire.Server
}

// find returns the plugin with the coordinator's digest.
func (s *server) find(request wire.PluginRequest) (*host.Plugin, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.plugins[request]; p != nil {
		return p, nil
	}
	p, err := host.FindExact(request.Name, request.SHA256, s.dirs)
	if err == nil {
		s.plugins[request] = p
	}
	return p, err
}

// Describe implements [wire.Agent].
func (s *server) Describe(ctx context.Context, request wire.PluginRequest) ([]byte, error) {
	p, err := s.find(request)
	if err != nil {
		return nil, err
	}
	description, err := p.Describe(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(description)
}

// Launch implements [wire.Agent].
func (s *server) Launch(ctx context.Context, request wire.LaunchRequest) (wire.Launched, error) {
	if !s.startMore(1) {
		return wire.Launched{}, fmt.Errorf("an agent starts at most %d ranks", config.MaxRanks)
	}
	defer s.startMore(-1)
	p, err := s.find(request.PluginRequest)
	if err != nil {
		return wire.Launched{}, err
	}
	process, err := p.Launch(ctx, host.LaunchOptions{
		Logger: slog.New(slog.NewTextHandler(
			logWriter{s, fmt.Sprintf("rank %d: ", request.Rank)},
			&slog.HandlerOptions{Level: request.LogLevel})),
		AllowMixedRuntime: request.AllowMixedRuntime, StartTimeout: request.StartTimeout,
	})
	if err != nil {
		return wire.Launched{}, err
	}
	r := &rank{process, wire.NewServer([]byte("null"), func() record.Control { return process })}
	s.mu.Lock()
	late := s.ended.Load() || ctx.Err() != nil
	id := strconv.Itoa(s.next)
	if s.next++; !late {
		s.ranks[id] = r
	}
	s.mu.Unlock()
	if late {
		return wire.Launched{}, errors.Join(ErrEnded, process.Kill())
	}
	return wire.Launched{ID: id}, nil
}

// startMore changes the number of launches in progress, unless there would be too many ranks.
func (s *server) startMore(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && s.starts+len(s.ranks) >= config.MaxRanks {
		return false
	}
	s.starts += n
	return true
}

func (s *server) rank(id string) (*rank, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.ranks[id]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("there is no rank %q", id)
}

// Rank implements [wire.Agent].
func (s *server) Rank(id string) (*wire.Server, error) {
	r, err := s.rank(id)
	if err != nil {
		return nil, err
	}
	return r.control, nil
}

// Await implements [wire.Agent].
func (s *server) Await(ctx context.Context, id string) error {
	r, err := s.rank(id)
	if err != nil {
		return err
	}
	select {
	case <-r.Exited():
		return r.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill implements [wire.Agent].
func (s *server) Kill(_ context.Context, id string) error {
	r, err := s.rank(id)
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ranks, id)
	}()
	return r.Process.Kill()
}

// UsesUp implements [wire.Agent].
func (s *server) UsesUp(ctx context.Context, request wire.PatienceRequest) error {
	r, err := s.rank(request.ID)
	if err != nil {
		return err
	}
	if request.Limit < minPatience {
		return fmt.Errorf("patience of %v; %v is the least", request.Limit, minPatience)
	}
	if !r.UsesUp(ctx, request.Limit) {
		return ctx.Err()
	}
	return nil
}

// minPatience keeps an agent from looking at a rank in a tight loop.
const minPatience = 10 * time.Millisecond

// State implements [wire.Agent]. While the agent is ending it does not answer, so that the
// coordinator learns from the end of the connection that the ranks failed for this reason.
func (s *server) State(ctx context.Context, cpus []int) (machine.State, error) {
	if len(cpus) > maxCPUs {
		return machine.State{}, fmt.Errorf("the state of %d processors; at most %d are allowed",
			len(cpus), maxCPUs)
	}
	if s.ended.Load() {
		<-ctx.Done()
		return machine.State{}, ctx.Err()
	}
	return machine.Root("/").State(cpus), nil
}

// Witness implements [wire.Agent].
func (s *server) Witness(ctx context.Context, request []byte) ([]byte, error) {
	var r witness.Request
	if err := accept.Decode(request, "request", &r); err != nil {
		return nil, err
	}
	declared, err := s.references(ctx, r.Load)
	if err != nil {
		return nil, err
	}
	reply, err := s.tools.Take(ctx, declared, r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(reply)
}

// Path implements [wire.Agent].
func (s *server) Path(ctx context.Context, request []byte) ([]byte, error) {
	var r path.Request
	if err := accept.Decode(request, "request", &r); err != nil {
		return nil, err
	}
	reply, err := s.paths.Take(ctx, r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(reply)
}

// references returns what this host's copy of the load's plugin declares.
func (s *server) references(ctx context.Context, of witness.Load) ([]transport.Reference, error) {
	if of.SHA256 == "" {
		return nil, nil
	}
	p, err := s.find(wire.PluginRequest{Name: of.Transport, SHA256: of.SHA256})
	if err != nil {
		return nil, err
	}
	description, err := p.Describe(ctx)
	return description.Info.References, err
}

// End implements [wire.Agent].
func (s *server) End(context.Context) error {
	s.over.Store(true)
	return nil
}

// Logs implements [wire.Agent].
func (s *server) Logs(ctx context.Context, send func(string) error) error {
	for {
		select {
		case text := <-s.logs:
			if err := send(text); err != nil {
				return err
			}
			if len(s.logs) > 0 {
				continue
			}
			if n := s.dropped.Swap(0); n > 0 {
				if err := send(fmt.Sprintf("%d more lines of logs were dropped: they came faster "+
					"than the coordinator took them", n)); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// logWriter passes lines of a plugin's log on. It never blocks: a coordinator that reads slowly
// loses lines, and is told how many.
type logWriter struct {
	server *server
	prefix string
}

func (w logWriter) Write(line []byte) (int, error) {
	select {
	case w.server.logs <- w.prefix + string(line[:min(len(line), longestLog)]):
	default:
		w.server.dropped.Add(1)
	}
	return len(line), nil
}

// killAll ends all ranks, in bounded time, and lets no other start.
func (s *server) killAll() {
	s.mu.Lock()
	s.ended.Store(true)
	ranks := s.ranks
	s.ranks = map[string]*rank{}
	s.mu.Unlock()
	var ending sync.WaitGroup
	for _, r := range ranks {
		ending.Go(func() { _ = r.Process.Kill() })
	}
	ending.Wait()
}
