package host

import (
	"cmp"
	"context"
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
	"transportbench/core/base/record"
	"transportbench/core/plugin"
	"transportbench/core/plugin/internal/accept"
	"transportbench/core/plugin/internal/wire"
)

// LaunchOptions configure the start of a plugin or the connection to one. The zero value is ready
// to use.
type LaunchOptions struct {
	// Logger receives the plugin's log; nil discards it.
	Logger *slog.Logger
	// AllowMixedRuntime accepts a plugin whose measured runtime differs from the host's.
	AllowMixedRuntime bool
	// StartTimeout bounds the start; 0 is 10 seconds.
	StartTimeout time.Duration
	// KillGrace is how long Kill waits for the plugin to end by itself; 0 is 2 seconds.
	KillGrace time.Duration

	// Space is the file of the network namespace in which the plugin runs; empty is the host's.
	Space string

	runtimeDigest string // the host's; tests set another
}

func (o LaunchOptions) withDefaults() LaunchOptions {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.StartTimeout = cmp.Or(o.StartTimeout, 10*time.Second)
	o.KillGrace = cmp.Or(o.KillGrace, 2*time.Second)
	o.runtimeDigest = cmp.Or(o.runtimeDigest, core.RuntimeDigest())
	return o
}

// Launch starts one process of the plugin and connects to it. It returns within StartTimeout, or
// soon after ctx ends. If it returns an error, nothing is left of the process. ctx bounds only the
// start; the caller ends the process with [Process.Kill].
func (p *Plugin) Launch(ctx context.Context, opts LaunchOptions) (*Process, error) {
	opts = opts.withDefaults()
	if err := p.check(); err != nil {
		return nil, err
	}
	sum, err := p.SHA256()
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	k, err := runningKeeper()
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, opts.StartTimeout)
	defer cancel()
	l := newLaunch(p, sum, k.dir.path, opts)
	// Once the connection stands, it no longer needs the socket's file.
	defer l.runner.removeSockets(k.dir)
	conn, description, err := l.connect(ctx)
	if err != nil {
		return nil, l.fail(ctx, err)
	}
	return l.process(conn, description), nil
}

// launch is one start of a plugin.
type launch struct {
	plugin *Plugin
	opts   LaunchOptions
	runner *pluginRunner
	client *goplugin.Client
	began  time.Time
}

// newLaunch returns a launch whose socket go-plugin makes in a new directory below sockets.
func newLaunch(p *Plugin, sum, sockets string, opts LaunchOptions) *launch {
	env := append(pluginEnvironment(os.Environ()), logEnvironment(func(level slog.Level) bool {
		return opts.Logger.Enabled(context.Background(), level)
	}))
	l := &launch{plugin: p, opts: opts, runner: newRunner(p, sum, opts.Space, env),
		began: time.Now()}
	l.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		Plugins:          goplugin.PluginSet{wire.ServiceName: &wire.Plugin{}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SkipHostEnv:      true,
		Logger:           newHCLogger(opts.Logger),
		Stderr:           l.runner.output,
		SyncStdout:       io.Discard,
		SyncStderr:       l.runner.output,
		StartTimeout:     opts.StartTimeout + reapTimeout, // Launch applies its own timeout
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: sockets},
		// gRPC would close idle connections and dial again, but the socket is unlinked by then.
		GRPCDialOptions: []grpc.DialOption{grpc.WithIdleTimeout(0)},
		RunnerFunc:      l.runner.adopt,
	})
	return l
}

// connect starts the process, connects to it and reads its description. It gives up when ctx ends.
func (l *launch) connect(ctx context.Context) (*grpc.ClientConn, plugin.Description, error) {
	var (
		conn *grpc.ClientConn
		d    plugin.Description
		err  error
	)
	connected := make(chan struct{})
	go func() {
		defer close(connected)
		if conn, err = l.dial(); err == nil {
			d, err = l.plugin.describeRunning(ctx, conn, l.opts)
		}
	}()
	select {
	case <-connected:
		return conn, d, err
	case <-ctx.Done():
	}
	// go-plugin gives up once the process is gone.
	_ = l.runner.Kill(ctx)
	waitFor(connected, reapTimeout)
	return nil, plugin.Description{}, ctx.Err()
}

// waitFor waits until done is closed, for timeout at most, and reports whether it is.
func waitFor(done <-chan struct{}, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
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

// describeRunning returns the description of the running plugin behind conn. It returns a refusal
// if the plugin would not measure what this host expects.
func (p *Plugin) describeRunning(ctx context.Context, conn *grpc.ClientConn,
	opts LaunchOptions) (plugin.Description, error) {
	var d plugin.Description
	data, err := wire.NewClient(conn, nil).Describe(ctx)
	var invalid *record.InvalidError
	if errors.As(err, &invalid) {
		return d, &refusal{fmt.Errorf("plugin %s: %w", p.Name, err)}
	}
	if err != nil {
		return d, err
	}
	if err := accept.Decode(data, "description", &d); err != nil {
		return d, &refusal{fmt.Errorf("plugin %s: %w", p.Name, err)}
	}
	if err := p.checkDescription(&d); err != nil {
		return d, &refusal{err}
	}
	if d.RuntimeDigest != opts.runtimeDigest && !opts.AllowMixedRuntime {
		return d, &refusal{fmt.Errorf("plugin %s: %w: it has %s (%s, %s), the host %s (%s, %s): "+
			"build both from one version, or pass --allow-mixed-runtime", p.Name, ErrMixedRuntime,
			short(d.RuntimeDigest), d.Version, d.Go, short(opts.runtimeDigest), core.Version,
			runtime.Version())}
	}
	return d, nil
}

// ErrMixedRuntime is wrapped by the error for a plugin that links another measured runtime than the
// host. Results of different runtimes could differ for that reason alone.
var ErrMixedRuntime = errors.New("the measured runtime differs from the host's")

// short abbreviates a digest.
func short(digest string) string { return digest[:min(12, len(digest))] }

// refusal is the host's own decision against a plugin. The end of the process that follows does not
// explain it.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// fail ends the process and returns why the start failed. How the process ended explains more than
// go-plugin's error.
func (l *launch) fail(ctx context.Context, err error) error {
	var refused *refusal
	if child := l.runner.started(); child != nil && ctx.Err() == nil && !errors.As(err, &refused) {
		waitFor(child.exited, endingGrace) // a broken connection may be its end
	}
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
	if n, _ := fmt.Sscanf(err.Error(), "incompatible API version with plugin. Plugin version: %d",
		&version); n == 1 {
		return checkProtocol(l.plugin.Name, version)
	}
	switch {
	case errors.As(err, &refused):
		return refused.error
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf(
			"plugin %s: %w after its start, so it was killed; --start-timeout gives it more time",
			l.plugin.Name, noAnswer(time.Since(l.began).Round(time.Millisecond).String()))
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("plugin %s: starting: %w", l.plugin.Name, context.Canceled)
	case child.failed() || !child.success() && !l.runner.killSent(): // somebody else killed it
		return exitError(l.plugin.Name, child, l.runner.output)
	default:
		return fmt.Errorf("plugin %s: %s is %w: %s", l.plugin.Name, l.plugin.Path, errNotAPlugin,
			abbreviate(err.Error()))
	}
}

// close ends go-plugin's side of a process that is gone or about to end, within reapTimeout.
func (l *launch) close() {
	closed := make(chan struct{})
	go func() {
		l.client.Kill()
		close(closed)
	}()
	waitFor(closed, reapTimeout)
}

func (l *launch) process(conn *grpc.ClientConn, d plugin.Description) *Process {
	p := &Process{
		name: l.plugin.Name, pid: l.runner.child.pid, description: d,
		exited: l.runner.exited, owned: l, grace: l.opts.KillGrace,
	}
	p.Rank = accept.New(wire.NewClient(conn, p.lost))
	return p
}
