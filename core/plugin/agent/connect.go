package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/hosts/path"
	"transportbench/core/lab/experiment/witness"
	"transportbench/core/plugin"
	"transportbench/core/plugin/host"
	"transportbench/core/plugin/internal/accept"
	"transportbench/core/plugin/internal/wire"
)

// Remote is an agent, as the coordinator sees it.
type Remote struct {
	name   string
	conn   *grpc.ClientConn
	raw    *watchedConn
	client *wire.AgentClient
	ctx    context.Context // ends with the connection
	end    context.CancelFunc
}

// lostError reports that the connection to an agent broke.
type lostError struct {
	Host string
	Err  error
}

func (e *lostError) Error() string { return fmt.Sprintf("host %s is lost: %v", e.Host, e.Err) }

func (e *lostError) Unwrap() error { return e.Err }

// Is makes the error one of [hosts.ErrLost].
func (e *lostError) Is(target error) bool { return target == hosts.ErrLost }

// Connect returns the agent at the other end of conn, which errors call name. It may be silent for
// silence. log gets what its plugins log; it may be called concurrently.
func Connect(name string, conn net.Conn, silence time.Duration, log func(text string)) (*Remote,
	error) {
	pingTime, pingTimeout := pings(silence)
	r := &Remote{name: name, raw: watch(conn)}
	var once sync.Once
	dial := func(context.Context, string) (net.Conn, error) {
		dialled := net.Conn(nil)
		once.Do(func() { dialled = r.raw })
		if dialled == nil {
			return nil, r.lost(net.ErrClosed)
		}
		return dialled, nil
	}
	var err error
	r.conn, err = grpc.NewClient("passthrough:///agent",
		// TLS is below
		grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithIdleTimeout(0), grpc.WithDefaultCallOptions(
			grpc.MaxCallSendMsgSize(math.MaxInt32),
			// It makes the addresses of a rank's peers five times smaller. Agents compress
			// their answers, too.
			grpc.UseCompressor(gzip.Name)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingTime, Timeout: pingTimeout,
			PermitWithoutStream: true}),
	)
	if err != nil {
		return nil, err
	}
	r.client = wire.NewAgentClient(r.conn, r.lost)
	r.ctx, r.end = context.WithCancel(context.Background())
	r.conn.Connect()
	for state := r.conn.GetState(); state != connectivity.Ready; state = r.conn.GetState() {
		if state == connectivity.TransientFailure || state == connectivity.Shutdown ||
			!r.conn.WaitForStateChange(r.ctx, state) {
			_ = r.conn.Close()
			return nil, r.lost(net.ErrClosed)
		}
	}
	go func() {
		<-r.raw.closed
		r.end()
	}()
	go func() { _ = r.client.Logs(r.ctx, log) }()
	return r, nil
}

// lost explains a call that failed because the connection ended.
func (r *Remote) lost(err error) error {
	cause := r.raw.cause()
	switch {
	case errors.Is(cause, io.EOF), errors.Is(cause, io.ErrUnexpectedEOF),
		errors.Is(cause, unix.ECONNRESET):
		cause = errors.New("its agent ended")
	case cause == nil && r.isClosed():
		cause = errors.New("it does not answer")
	case cause == nil:
		cause = err
	}
	return &lostError{r.name, cause}
}

func (r *Remote) isClosed() bool {
	select {
	case <-r.raw.closed:
		return true
	default:
		return false
	}
}

// on names the host in an error.
func (r *Remote) on(err error) error {
	var lost *lostError
	if err == nil || errors.As(err, &lost) {
		return err
	}
	return fmt.Errorf("host %s: %w", r.name, err)
}

// Describe returns the description of a plugin by the agent's host.
func (r *Remote) Describe(ctx context.Context, name, sha256 string) (plugin.Description, error) {
	var d plugin.Description
	data, err := wire.CallAgent[[]byte](ctx, r.client, "Describe",
		wire.PluginRequest{Name: name, SHA256: sha256})
	if err == nil {
		err = accept.Decode(data, "description", &d)
	}
	if err == nil {
		err = accept.Info(&d.Info)
	}
	return d, r.on(err)
}

// Launch starts a rank. It returns an error in which nothing is left of it, unless the host is
// lost.
func (r *Remote) Launch(ctx context.Context, request wire.LaunchRequest) (*Process, error) {
	launched, err := wire.CallAgent[wire.Launched](ctx, r.client, "Launch", request)
	if err != nil {
		return nil, r.on(err)
	}
	if _, err := strconv.ParseUint(launched.ID, 10, 32); err != nil { // the ID goes into headers
		return nil, r.on(fmt.Errorf("launch: %.20q is no rank's ID", launched.ID))
	}
	p := &Process{remote: r, id: launched.ID, exited: make(chan struct{})}
	p.Rank = accept.New(r.client.Rank(launched.ID, p.lost))
	go func() {
		defer close(p.exited)
		_, _ = wire.CallAgent[struct{}](r.ctx, r.client, "Await", launched.ID)
	}()
	return p, nil
}

// State reads the state of the agent's machine for some processors.
func (r *Remote) State(ctx context.Context, cpus []int) (machine.State, error) {
	state, err := wire.CallAgent[machine.State](ctx, r.client, "State", cpus)
	return state, r.on(err)
}

// Witness implements [witness.Host].
func (r *Remote) Witness(ctx context.Context, request witness.Request) (witness.Reply, error) {
	return ask[witness.Reply](ctx, r, "Witness", request)
}

// Path takes a step of the measurement of the network between two hosts.
func (r *Remote) Path(ctx context.Context, request path.Request) (path.Reply, error) {
	return ask[path.Reply](ctx, r, "Path", request)
}

// ask calls an agent with a request and returns its reply, both as JSON.
func ask[Reply any](ctx context.Context, r *Remote, method string, request any) (reply Reply,
	err error) {
	text, err := json.Marshal(request)
	if err != nil {
		return reply, err
	}
	if text, err = wire.CallAgent[[]byte](ctx, r.client, method, text); err == nil {
		err = accept.Decode(text, "reply", &reply)
	}
	return reply, r.on(err)
}

// endTimeout bounds the last call of an agent.
const endTimeout = 2 * time.Second

// Close ends the agent, with its ranks, and the connection.
func (r *Remote) Close() {
	ctx, cancel := context.WithTimeout(r.ctx, endTimeout)
	defer cancel()
	_, _ = wire.CallAgent[struct{}](ctx, r.client, "End", struct{}{})
	_ = r.conn.Close()
	r.end()
}

// killTimeout is longer than an agent takes to kill a process.
const killTimeout = 15 * time.Second

// Process is a rank on another host. Its methods are those of [record.Control], as of
// [host.Process].
type Process struct {
	*accept.Rank

	remote *Remote
	id     string
	exited chan struct{}
	once   sync.Once
	mu     sync.Mutex
	killed bool
}

var _ record.Control = (*Process)(nil)

// Exited returns a channel that is closed once the process is gone, or its host is lost.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// UsesUp waits until the rank has used limit of its own time, as [machine.UsesUp] does, and reports
// true, or until ctx ends. All time counts if the agent cannot tell, and an answer before limit
// cannot be true.
func (p *Process) UsesUp(ctx context.Context, limit time.Duration) bool {
	began := time.Now()
	_, _ = wire.CallAgent[struct{}](ctx, p.remote.client, "UsesUp",
		wire.PatienceRequest{ID: p.id, Limit: limit})
	select {
	case <-time.After(limit - time.Since(began)):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Kill ends the process. It returns at once if the host is lost: the agent then ends its ranks by
// itself.
func (p *Process) Kill() {
	p.once.Do(func() {
		p.mu.Lock()
		p.killed = true
		p.mu.Unlock()
		ctx, cancel := context.WithTimeout(p.remote.ctx, killTimeout)
		defer cancel()
		_, _ = wire.CallAgent[struct{}](ctx, p.remote.client, "Kill", p.id)
	})
}

func (p *Process) lost(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return host.ErrKilled
	}
	return p.remote.lost(err)
}
