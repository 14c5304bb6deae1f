package sweep

import (
	"context"
	"sync"

	"transportbench/core/lab/runner"
)

// Pool keeps processes whose ranks closed without an error, for the next run of the same plugin:
// a process can prepare a new rank after it has closed one. Its methods may be called from any
// goroutine.
type Pool struct {
	mu     sync.Mutex
	idle   map[string][]runner.Process // by plugin
	closed bool
}

// NewPool returns an empty pool, which the caller must close.
func NewPool() *Pool { return &Pool{idle: map[string][]runner.Process{}} }

// Launcher returns a launcher that takes processes from the pool and calls start if there is none.
// Processes are reused only for the same key, which names the plugin.
func (p *Pool) Launcher(key string, start runner.Launcher) runner.Launcher {
	return &pooling{pool: p, key: key, start: start}
}

// Empty kills all idle processes.
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

// Close kills all idle processes, and later every process that becomes idle.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Empty()
}

// take returns an idle process that is alive, or nil.
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

// give makes process idle and returns true, or false if the pool is closed.
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

// pooled is one use of a process, from Launch to Kill.
type pooled struct {
	runner.Process
	pool *Pool
	key  string

	mu     sync.Mutex
	closed bool // without an error
	ended  bool
}

// Close implements [record.Control].
func (p *pooled) Close(ctx context.Context) error {
	err := p.Process.Close(ctx)
	p.mu.Lock()
	p.closed = err == nil && ctx.Err() == nil
	p.mu.Unlock()
	return err
}

// Kill implements [runner.Process]. If the rank closed without an error, nothing of the run is left
// in the process, and Kill returns it to the pool instead.
func (p *pooled) Kill() {
	p.mu.Lock()
	ended, closed := p.ended, p.closed
	p.ended = true
	p.mu.Unlock()
	switch {
	case ended && closed: // another run may use the process by now
	case !ended && closed && p.pool.give(p.key, p.Process):
	default:
		p.Process.Kill()
	}
}
