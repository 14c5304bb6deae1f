package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"transportbench/core"
	"transportbench/core/plugin"
	"transportbench/core/plugin/internal/wire"
)

// LaunchOptions say how to start a plugin or connect to one. The zero value is
// good for most.
type LaunchOptions struct {
	// Logger gets what the plugin logs; nil discards it.
	Logger *slog.Logger
	// AllowMixedRuntime accepts a plugin whose measured runtime differs from
	// the host's.
	AllowMixedRuntime bool
	// StartTimeout bounds the start; 0 is 10 seconds.
	StartTimeout time.Duration
	// KillGrace is how long Kill waits for the plugin to end by itself; 0 is
	// 2 seconds.
	KillGrace time.Duration

	runtimeDigest string // the host's; tests have others
}

func (o LaunchOptions) withDefaults() LaunchOptions {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 10 * time.Second
	}
	if o.KillGrace == 0 {
		o.KillGrace = 2 * time.Second
	}
	if o.runtimeDigest == "" {
		o.runtimeDigest = core.RuntimeDigest()
	}
	return o
}

// Launch starts one process of the plugin and connects to it. It returns within
// StartTimeout, or soon after the end of ctx; with an error, nothing is left of
// the process. The caller ends it with [Process.Kill]; ctx concerns the start
// only.
func (p *Plugin) Launch(ctx context.Context, opts LaunchOptions) (*Process, error) {
	opts = opts.withDefaults()
	if err := p.check(); err != nil {
		return nil, err
	}
	sum, err := p.SHA256()
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	dir, err := newRunDir()
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	// The connection needs the socket's file only to be made.
	defer dir.remove()

	ctx, cancel := context.WithTimeout(ctx, opts.StartTimeout)
	defer cancel()
	l := newLaunch(p, sum, dir, opts)
	conn, description, err := l.connect(ctx)
	if err != nil {
		return nil, l.fail(ctx, err)
	}
	return l.process(conn, description), nil
}

// launch is one start of a plugin, from its process to its connection.
type launch struct {
	plugin *Plugin
	opts   LaunchOptions
	runner *pluginRunner
	client *goplugin.Client
	begun  time.Time
}

func newLaunch(p *Plugin, sum string, dir *runDir, opts LaunchOptions) *launch {
	env := append(pluginEnvironment(os.Environ()), logEnvironment(func(level slog.Level) bool {
		return opts.Logger.Enabled(context.Background(), level)
	}))
	l := &launch{plugin: p, opts: opts, runner: newRunner(p, sum, env), begun: time.Now()}
	logger := newHCLogger(opts.Logger)
	l.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		Plugins:          goplugin.PluginSet{wire.ServiceName: &wire.Plugin{}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SkipHostEnv:      true,
		Logger:           logger,
		Stderr:           l.runner.output,
		SyncStdout:       io.Discard,
		SyncStderr:       l.runner.output,
		StartTimeout:     opts.StartTimeout + reapTimeout, // the launch has its own
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: dir.path},
		// Idle connections would be closed and dialled again, by a socket
		// that is unlinked by then.
		GRPCDialOptions: []grpc.DialOption{grpc.WithIdleTimeout(0)},
		RunnerFunc:      l.runner.adopt,
	})
	return l
}

// connected is what the start comes to.
type connected struct {
	conn        *grpc.ClientConn
	description plugin.Description
	err         error
}

// connect starts the process and asks it what it is, until ctx ends.
func (l *launch) connect(ctx context.Context) (*grpc.ClientConn, plugin.Description, error) {
	result := make(chan connected, 1)
	go func() {
		conn, err := l.dial()
		if err != nil {
			result <- connected{err: err}
			return
		}
		description, err := l.ask(ctx, conn)
		result <- connected{conn, description, err}
	}()
	select {
	case r := <-result:
		return r.conn, r.description, r.err
	case <-ctx.Done():
	}
	// go-plugin gives up once the process is gone.
	_ = l.runner.Kill(ctx)
	patience := time.NewTimer(reapTimeout)
	defer patience.Stop()
	select {
	case <-result:
	case <-patience.C:
	}
	return nil, plugin.Description{}, ctx.Err()
}

func (l *launch) dial() (*grpc.ClientConn, error) {
	protocol, err := l.client.Client() // starts the process
	if err != nil {
		return nil, err
	}
	dispensed, err := protocol.Dispense(wire.ServiceName)
	if err != nil {
		return nil, err
	}
	return dispensed.(*grpc.ClientConn), nil
}

// ask has the plugin describe itself and refuses one that would not measure
// what this host thinks.
func (l *launch) ask(ctx context.Context, conn *grpc.ClientConn) (plugin.Description, error) {
	data, err := wire.NewClient(conn, nil).Describe(ctx)
	if err != nil {
		return plugin.Description{}, err
	}
	return checkRunning(l.plugin, data, l.opts)
}

// checkRunning reads what a running plugin says of itself.
func checkRunning(p *Plugin, data []byte, opts LaunchOptions) (plugin.Description, error) {
	var d plugin.Description
	if err := json.Unmarshal(data, &d); err != nil {
		return d, &refusal{fmt.Errorf("plugin %s: reading its description: %w", p.Name, err)}
	}
	if err := p.checkDescription(d); err != nil {
		return d, &refusal{err}
	}
	if d.RuntimeDigest != opts.runtimeDigest && !opts.AllowMixedRuntime {
		return d, &refusal{fmt.Errorf("plugin %s: %w: it has %s (%s, %s), the host %s (%s, %s): "+
			"build both from one version, or pass --allow-mixed-runtime", p.Name, ErrMixedRuntime,
			short(d.RuntimeDigest), d.Version, d.Go, short(opts.runtimeDigest), core.Version, runtime.Version())}
	}
	return d, nil
}

// ErrMixedRuntime is why a plugin is refused that links another measured runtime
// than the host: results of the two could differ for that reason alone.
var ErrMixedRuntime = errors.New("the measured runtime differs from the host's")

// short is enough of a digest to tell two apart.
func short(digest string) string { return digest[:min(12, len(digest))] }

// refusal is an error of the host's own judgement, which the end of the process
// that follows does not explain better.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// fail ends the process and says why the start failed. What the process did
// tells more than what go-plugin made of it.
func (l *launch) fail(ctx context.Context, err error) error {
	_ = l.runner.Kill(ctx)
	child := l.runner.started()
	if child == nil {
		l.close()
		return err
	}
	if stuck := awaitExit(child); stuck != nil {
		return fmt.Errorf("plugin %s: %w", l.plugin.Name, stuck)
	}
	l.close()
	<-l.runner.exited
	// go-plugin's handshake has no typed error for a plugin of another version.
	var version int
	if n, _ := fmt.Sscanf(err.Error(), "incompatible API version with plugin. Plugin version: %d", &version); n == 1 {
		return checkProtocol(l.plugin.Name, version)
	}
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return refused.error
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("plugin %s: no answer %v after its start, killed: %w",
			l.plugin.Name, time.Since(l.begun).Round(time.Millisecond), context.DeadlineExceeded)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("plugin %s: starting: %w", l.plugin.Name, context.Canceled)
	case child.failed():
		return exitError(l.plugin.Name, child.state(), l.runner.output)
	default:
		return fmt.Errorf("plugin %s: %s is %w: %s", l.plugin.Name, l.plugin.Path, errNotAPlugin, abbreviate(err.Error()))
	}
}

// close ends go-plugin's side of a process that is gone, or is about to go. It
// blocks for as long as the process lives, but not much longer.
func (l *launch) close() {
	closed := make(chan struct{})
	go func() {
		l.client.Kill()
		close(closed)
	}()
	patience := time.NewTimer(reapTimeout)
	defer patience.Stop()
	select {
	case <-closed:
	case <-patience.C:
	}
}

func (l *launch) process(conn *grpc.ClientConn, d plugin.Description) *Process {
	p := &Process{
		name: l.plugin.Name, pid: l.runner.child.cmd.Process.Pid, description: d,
		exited: l.runner.exited, owned: l, grace: l.opts.KillGrace,
	}
	p.Client = wire.NewClient(conn, p.lost)
	return p
}
