package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"transportbench/core/base/record"
	"transportbench/core/plugin"
	"transportbench/core/plugin/internal/wire"
)

// Process is one rank: a plugin's process and the connection to it. Its methods
// are those of [record.Control], with the errors of the rank, or an [*record.ExitError]
// where the plugin died. It is safe for use from several goroutines.
type Process struct {
	*wire.Client

	name        string
	pid         int
	description plugin.Description
	exited      chan struct{}

	owned  *launch // nil where the plugin ran before
	detach func()  // closes the connection to a plugin that is not ours
	grace  time.Duration

	mu       sync.Mutex
	killed   bool
	killOnce sync.Once
	killErr  error
}

var _ record.Control = (*Process)(nil)

// ErrKilled is what calls return that come after Kill, or were under way.
var ErrKilled = errors.New("the plugin has been ended")

// PID returns the process number of the plugin.
func (p *Process) PID() int { return p.pid }

// Description returns what the running plugin says of itself.
func (p *Process) Description() plugin.Description { return p.description }

// Exited returns a channel that is closed when the plugin is gone and its last
// output is read, or for one that ran before, when the connection is.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns nil while the plugin lives and where Kill ended it, else why it
// is gone: an [*record.ExitError].
func (p *Process) Err() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	if p.wasKilled() {
		return nil
	}
	return p.exitError()
}

func (p *Process) exitError() error {
	if p.owned == nil {
		return fmt.Errorf("plugin %s (pid %d) closed the connection", p.name, p.pid)
	}
	return exitError(p.name, p.owned.runner.child.state(), p.owned.runner.output)
}

// lost explains a broken connection.
func (p *Process) lost(err error) error {
	if p.wasKilled() {
		return fmt.Errorf("plugin %s: %w", p.name, ErrKilled)
	}
	// A process that dies closes its connection first.
	patience := time.NewTimer(p.grace)
	defer patience.Stop()
	select {
	case <-p.exited:
		if p.wasKilled() {
			return fmt.Errorf("plugin %s: %w", p.name, ErrKilled)
		}
		return p.exitError()
	case <-patience.C:
		return fmt.Errorf("plugin %s (pid %d) closed its connection and lives on: %w", p.name, p.pid, err)
	}
}

func (p *Process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// Kill ends the plugin: it asks, waits for the grace period, sends SIGKILL to
// the process group and reaps. It may be called more than once, also for a
// plugin that is gone, and is bounded in time; the error says that the process
// does not die. A plugin that ran before is left alone, and only the connection
// closed.
func (p *Process) Kill() error {
	p.killOnce.Do(func() {
		p.mu.Lock()
		select {
		case <-p.exited: // by itself; Err goes on to say why
		default:
			p.killed = true
		}
		p.mu.Unlock()
		if p.owned == nil {
			p.detach()
			return
		}
		p.killErr = p.owned.end(p.grace)
	})
	return p.killErr
}

// end asks the process to end, and makes it.
func (l *launch) end(grace time.Duration) error {
	asked := make(chan struct{})
	go func() {
		l.client.Kill() // blocks for ever where the plugin does not answer
		close(asked)
	}()
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-l.runner.child.exited:
	case <-patience.C:
		l.runner.child.kill()
	}
	if err := awaitExit(l.runner.child); err != nil {
		return fmt.Errorf("plugin %s: %w", l.plugin.Name, err)
	}
	// The end of the process ends all that these wait for.
	<-asked
	<-l.runner.exited
	return nil
}

// watchConnection closes exited when conn, which has answered a call, breaks.
func watchConnection(ctx context.Context, conn *grpc.ClientConn, exited chan<- struct{}) {
	// gRPC lets calls through before it says that it is ready.
	conn.WaitForStateChange(ctx, connectivity.Connecting)
	conn.WaitForStateChange(ctx, connectivity.Ready)
	close(exited)
}
