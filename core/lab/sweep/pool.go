package sweep

import (
	"context"
	"sync"

	"transportbench/core/lab/runner"
)

// Pool keeps the processes of ranks that closed well for the next run of the
// same plugin: a rank can be prepared anew in the process where another was
// closed. Its methods may be called from any goroutine.
type Pool struct {
	mu     sync.Mutex
	idle   map[string][]runner.Process // by plugin
	closed bool
}

// NewPool returns an empty pool. Close it.
func NewPool() *Pool { return &Pool{idle: map[string][]runner.Process{}} }

// Launcher returns one that takes processes from the pool before it starts
// more. key tells plugins apart.
func (p *Pool) Launcher(key string, start runner.Launcher) runner.Launcher {
	return &pooling{pool: p, key: key, start: start}
}

// Empty ends all processes that are idle.
func (p *Pool) Empty() {
	p.mu.Lock()
	all := p.idle
	p.idle = map[string][]runner.Process{}
	p.mu.Unlock()
	var ending sync.WaitGroup
	for _, processes := range all {
		for _, process := range processes {
			ending.Go(process.Kill)
		}
	}
	ending.Wait()
}

// Close ends all processes that are idle, and those that become so later.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Empty()
}

// take returns an idle process that lives, or nil.
func (p *Pool) take(key string) runner.Process {
	for {
		p.mu.Lock()
		list := p.idle[key]
		if len(list) == 0 {
			p.mu.Unlock()
			return nil
		}
		process := list[len(list)-1]
		p.idle[key] = list[:len(list)-1]
		p.mu.Unlock()
		select {
		case <-process.Exited():
			process.Kill()
		default:
			return process
		}
	}
}

// give keeps a process, unless the pool is closed.
func (p *Pool) give(key string, process runner.Process) (kept bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.idle[key] = append(p.idle[key], process)
	return true
}

type pooling struct {
	pool  *Pool
	key   string
	start runner.Launcher
}

// Launch implements [runner.Launcher].
func (l *pooling) Launch(ctx context.Context, rank int) (runner.Process, error) {
	process := l.pool.take(l.key)
	if process == nil {
		var err error
		if process, err = l.start.Launch(ctx, rank); err != nil {
			return nil, err
		}
	}
	return &pooled{Process: process, pool: l.pool, key: l.key}, nil
}

// pooled is one use of a process: from its launch to its kill.
type pooled struct {
	runner.Process
	pool *Pool
	key  string

	mu     sync.Mutex
	closed bool // well
	ended  bool
}

// Close implements [rank.Control].
func (p *pooled) Close(ctx context.Context) error {
	err := p.Process.Close(ctx)
	p.mu.Lock()
	p.closed = err == nil && ctx.Err() == nil
	p.mu.Unlock()
	return err
}

// Kill implements [runner.Process]: it ends the process unless its rank closed
// well, in which case there is nothing left of the run in it.
func (p *pooled) Kill() {
	p.mu.Lock()
	ended, closed := p.ended, p.closed
	p.ended = true
	p.mu.Unlock()
	switch {
	case ended && closed: // it may be another's by now
	case !ended && closed && p.pool.give(p.key, p.Process):
	default:
		p.Process.Kill()
	}
}
