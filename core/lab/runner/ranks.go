package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// RankError is a rank that failed or did not answer.
type RankError struct {
	Rank int
	Op   string // "launch", "prepare", "run", ...
	Err  error  // wraps ErrNoAnswer where the rank did not answer in time
}

func (e *RankError) Error() string { return fmt.Sprintf("rank %d: %s: %v", e.Rank, e.Op, e.Err) }

func (e *RankError) Unwrap() error { return e.Err }

// ErrNoAnswer is wrapped by the error for a rank that did not answer in time.
// It was killed.
var ErrNoAnswer = errors.New("no answer")

func noAnswer(limit time.Duration) error {
	return fmt.Errorf("%w within %v, so it was killed; its log says how far it came", ErrNoAnswer, limit)
}

// ranks are the processes of a run, and the calls of them in progress.
type ranks struct {
	calls sync.WaitGroup

	mu        sync.Mutex
	processes []Process
	killed    bool
}

func newRanks(n int) *ranks { return &ranks{processes: make([]Process, n)} }

func (rs *ranks) process(r int) Process {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.processes[r]
}

// launch keeps the process also where it comes too late for whoever waited.
func (rs *ranks) launch(ctx context.Context, launcher Launcher, r int) error {
	p, err := launcher.Launch(ctx, r)
	if err != nil {
		return err
	}
	rs.mu.Lock()
	rs.processes[r] = p
	late := rs.killed
	rs.mu.Unlock()
	if late {
		p.Kill()
	}
	return nil
}

// ask makes one call of a rank and gives up on it after limit, or at the end
// of ctx. What is given up on goes on in its own goroutine until the rank is
// killed.
func ask[T any](ctx context.Context, rs *ranks, r int, op string, limit time.Duration,
	call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, noAnswer(limit))
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	rs.calls.Go(func() {
		value, err := call(ctx)
		answers <- answer{value, err}
	})
	var a answer
	select {
	case a = <-answers:
		if a.err == nil {
			return a.value, nil
		}
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); cause != nil {
		a.err = cause // rather than what the call made of it
	}
	return a.value, &RankError{Rank: r, Op: op, Err: a.err}
}

// askAll makes the same call of several ranks at once and returns the answers
// in the order of who. The first failure ends the others' calls.
func askAll[T any](ctx context.Context, rs *ranks, who []int, op string, limit time.Duration,
	call func(ctx context.Context, r int) (T, error)) ([]T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	values := make([]T, len(who))
	var (
		waiting sync.WaitGroup
		once    sync.Once
		first   error
	)
	for i, r := range who {
		waiting.Go(func() {
			var err error
			values[i], err = ask(ctx, rs, r, op, limit, func(ctx context.Context) (T, error) { return call(ctx, r) })
			if err != nil {
				once.Do(func() { first = err; cancel() })
			}
		})
	}
	waiting.Wait()
	return values, first
}

// close asks every launched rank to close and returns the error of each.
func (b *bench) close(ctx context.Context, good bool) []error {
	b.progress.enter(PhaseClose, 0, 0)
	limit := closeLimit
	if !good {
		limit = abortLimit
	}
	errs := make([]error, len(b.plans))
	var waiting sync.WaitGroup
	for _, r := range b.all() {
		p := b.ranks.process(r)
		if p == nil {
			continue
		}
		waiting.Go(func() { // one that cannot close keeps no other from it
			_, errs[r] = ask(context.WithoutCancel(ctx), b.ranks, r, "close", limit,
				func(ctx context.Context) (struct{}, error) { return struct{}{}, p.Close(ctx) })
		})
	}
	waiting.Wait()
	return errs
}

// kill kills all ranks, and those that are still being launched as soon as
// they are. It then waits until no call is in progress, but not for ever: a
// call that outlives its process is the launcher's fault.
func (rs *ranks) kill() {
	rs.mu.Lock()
	rs.killed = true
	processes := append([]Process(nil), rs.processes...)
	rs.mu.Unlock()
	var killing sync.WaitGroup
	for _, p := range processes {
		if p != nil {
			killing.Go(p.Kill)
		}
	}
	killing.Wait()

	idle := make(chan struct{})
	go func() {
		rs.calls.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-time.After(closeLimit):
	}
}
