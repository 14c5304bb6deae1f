package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/plugin"
	"transportbench/core/plugin/internal/accept"
)

// Process is one rank: a plugin's process and the connection to it. Its methods are those of
// [record.Control] and return the rank's errors, a [*record.ExitError] if the plugin died, or a
// [*record.InvalidError] if it reports what cannot be. It is safe for concurrent use.
type Process struct {
	*accept.Rank

	name        string
	pid         int
	description plugin.Description
	exited      chan struct{}

	owned  *launch // nil for a plugin that this host did not start
	detach func()  // closes the connection to a plugin that this host did not start
	grace  time.Duration

	mu       sync.Mutex
	killed   bool
	killOnce sync.Once
	killErr  error
}

var _ record.Control = (*Process)(nil)

// ErrKilled is returned by calls after Kill and by calls that Kill interrupted.
var ErrKilled = errors.New("the plugin has been ended")

// PID returns the plugin's process number.
func (p *Process) PID() int { return p.pid }

// UsesUp waits until the plugin has used limit of its own time, as [machine.UsesUp] does, and
// reports true, or until ctx ends.
func (p *Process) UsesUp(ctx context.Context, limit time.Duration) bool {
	return machine.UsesUp(ctx, p.pid, limit)
}

// Description returns the running plugin's description of itself.
func (p *Process) Description() plugin.Description { return p.description }

// Exited returns a channel that is closed once the plugin is gone and all its output is read. For
// a plugin that this host did not start, it is closed once the connection breaks.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns nil while the plugin runs or if Kill ended it, and otherwise a [*record.ExitError].
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
	return exitError(p.name, p.owned.runner.child, p.owned.runner.output)
}

// lost explains a broken connection.
func (p *Process) lost(err error) error {
	// A process that dies closes its connection first.
	timeout := time.NewTimer(p.grace)
	defer timeout.Stop()
	exited := false
	if !p.wasKilled() {
		select {
		case <-p.exited:
			exited = true
		case <-timeout.C:
		}
	}
	switch {
	case p.wasKilled():
		return fmt.Errorf("plugin %s: %w", p.name, ErrKilled)
	case exited:
		return p.exitError()
	}
	return fmt.Errorf("plugin %s (pid %d) closed its connection but still runs: %w", p.name,
		p.pid, err)
}

func (p *Process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// Kill asks the plugin to end, waits for the grace period, sends SIGKILL to the process group and
// reaps the process. It is bounded in time and may be called again, also after the plugin has
// ended; the error says that the process does not die. Kill leaves a plugin that this host did not
// start alone, and only closes the connection.
func (p *Process) Kill() error {
	p.killOnce.Do(func() {
		p.mu.Lock()
		select {
		case <-p.exited: // it ended by itself, and Err still says why
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

// end asks the process to end, and kills it after grace.
func (l *launch) end(grace time.Duration) error {
	asked := make(chan struct{})
	go func() {
		l.client.Kill() // has no timeout of its own if the plugin does not answer
		close(asked)
	}()
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	select {
	case <-l.runner.child.exited:
	case <-timeout.C:
		l.runner.child.kill()
	}
	if err := awaitExit(l.runner.child); err != nil {
		return fmt.Errorf("plugin %s: %w", l.plugin.Name, err)
	}
	// Both of these return because the process is gone.
	<-asked
	<-l.runner.exited
	return nil
}

// watchConnection closes exited when conn, which has answered a call, breaks, or ctx ends.
func watchConnection(ctx context.Context, conn *grpc.ClientConn, exited chan<- struct{}) {
	// gRPC lets calls through before it reports the connection as ready.
	conn.WaitForStateChange(ctx, connectivity.Connecting)
	conn.WaitForStateChange(ctx, connectivity.Ready)
	close(exited)
}
