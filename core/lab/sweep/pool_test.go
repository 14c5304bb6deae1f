package sweep

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/runner"
)

// process counts the calls of Kill.
type process struct {
	record.Control // only Close is called
	closing        error
	killed         int
	exited         chan struct{}
}

func (p *process) Close(context.Context) error { return p.closing }
func (p *process) Kill()                       { p.killed++ }
func (p *process) Exited() <-chan struct{}     { return p.exited }

// starter is a launcher that records its processes.
type starter struct {
	started []*process
	err     error
}

func (s *starter) Launch(context.Context, int) (runner.Process, error) {
	if s.err != nil {
		return nil, s.err
	}
	p := &process{exited: make(chan struct{})}
	s.started = append(s.started, p)
	return p, nil
}

func TestPoolKeepsClosedProcesses(t *testing.T) {
	s, pool := new(starter), NewPool()
	l := pool.Launcher("shm", s)
	ctx := t.Context()
	launch := func() runner.Process {
		p, err := l.Launch(ctx, 0)
		require.NoError(t, err)
		return p
	}
	a, b := launch(), launch()
	require.NoError(t, a.Close(ctx))
	a.Kill()
	b.Kill() // was not closed
	require.Zero(t, s.started[0].killed)
	require.Equal(t, 1, s.started[1].killed)

	again := launch()
	require.Len(t, s.started, 2, "the first process is reused")
	a.Kill() // of the earlier use; another use has the process now
	require.Zero(t, s.started[0].killed)
	require.NoError(t, again.Close(ctx))
	again.Kill()

	other, err := pool.Launcher("erpc", s).Launch(ctx, 0)
	require.NoError(t, err)
	require.Len(t, s.started, 3, "processes of other plugins are not reused")
	require.NoError(t, other.Close(ctx))
	other.Kill()

	pool.Empty()
	require.Equal(t, 1, s.started[0].killed)
	require.Equal(t, 1, s.started[2].killed)

	last := launch()
	require.Len(t, s.started, 4)
	require.NoError(t, last.Close(ctx))
	pool.Close()
	last.Kill()
	require.Equal(t, 1, s.started[3].killed, "a closed pool keeps nothing")
}

func TestPoolDropsDeadAndFailedProcesses(t *testing.T) {
	s, pool := new(starter), NewPool()
	defer pool.Close()
	l := pool.Launcher("shm", s)
	ctx := t.Context()
	first, err := l.Launch(ctx, 0)
	require.NoError(t, err)
	require.NoError(t, first.Close(ctx))
	first.Kill()
	close(s.started[0].exited)
	second, err := l.Launch(ctx, 0)
	require.NoError(t, err)
	require.Len(t, s.started, 2)
	require.Equal(t, 1, s.started[0].killed, "a dead process is cleaned up")

	s.started[1].closing = errors.New("it hangs")
	require.Error(t, second.Close(ctx))
	second.Kill()
	require.Equal(t, 1, s.started[1].killed)

	s.err = errors.New("no such plugin")
	_, err = l.Launch(ctx, 0)
	require.ErrorIs(t, err, s.err)
}
