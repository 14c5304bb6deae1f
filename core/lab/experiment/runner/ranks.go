package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"transportbench/core/base/record"
)

// RankError reports that a rank failed or did not answer.
type RankError struct {
	Rank int
	Host string // empty for a rank on this host
	Op   string // "launch", "prepare", "run", ...
	Err  error  // wraps ErrNoAnswer if the rank did not answer in time
}

func (e *RankError) Error() string {
	if e.Host != "" {
		return fmt.Sprintf("rank %d on %s: %s: %v", e.Rank, e.Host, e.Op, e.Err)
	}
	return fmt.Sprintf("rank %d: %s: %v", e.Rank, e.Op, e.Err)
}

func (e *RankError) Unwrap() error { return e.Err }

// ErrNoAnswer is wrapped by the error of a rank that was killed because it did not answer in time.
var ErrNoAnswer = errors.New("no answer")

func noAnswer(timeout time.Duration) error {
	return fmt.Errorf("%w within %v, so it was killed; its log shows how far it got",
		ErrNoAnswer, timeout)
}

// noSetup is the error of a rank of transport that hangs in a step of the setup.
func noSetup(transport string, timeout time.Duration) error {
	return fmt.Errorf("%w from %s within %v, so it was killed; --start-timeout gives it more time",
		ErrNoAnswer, transport, timeout.Round(100*time.Millisecond))
}

// ranks holds the processes of a run and their calls in progress.
type ranks struct {
	calls sync.WaitGroup
	hosts []string // names, by rank

	mu        sync.Mutex
	processes []Process // nil until launched
	killed    bool
}

func newRanks(n int, req *Request) *ranks {
	rs := &ranks{processes: make([]Process, n), hosts: make([]string, n)}
	for r := range rs.hosts {
		rs.hosts[r] = req.hosts()[req.hostOf(r)].Name
	}
	return rs
}

// failed returns the error of an operation of rank r.
func (rs *ranks) failed(r int, op string, err error) error {
	return &RankError{Rank: r, Host: rs.hosts[r], Op: op, Err: err}
}

func (rs *ranks) process(r int) Process {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.processes[r]
}

// launch launches rank r. It kills a process that is launched after kill.
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

// callRank makes one call of rank r and stops waiting for it after timeout, or when ctx ends. An
// abandoned call goes on in its own goroutine until the rank is killed.
func callRank[T any](ctx context.Context, rs *ranks, r int, op string, timeout time.Duration,
	call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, noAnswer(timeout))
	defer cancel()
	return awaitRank(ctx, rs, r, op, call)
}

// awaitRank makes one call of rank r and stops waiting for it when ctx ends, as callRank does.
func awaitRank[T any](ctx context.Context, rs *ranks, r int, op string,
	call func(context.Context) (T, error)) (T, error) {
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
		a.err = cause // it explains the call's own error
	}
	return a.value, rs.failed(r, op, a.err)
}

// callAll makes the same call of several ranks at once and returns the answers in their order.
// The first failure ends the other calls.
func callAll[T any](ctx context.Context, rs *ranks, list []int, op string, timeout time.Duration,
	call func(ctx context.Context, r int) (T, error)) ([]T, error) {
	return awaitAll(ctx, list, func(ctx context.Context, r int) (T, error) {
		return callRank(ctx, rs, r, op, timeout,
			func(ctx context.Context) (T, error) { return call(ctx, r) })
	})
}

// deathGrace is how long after the failure of a rank the others may report their death, which then
// counts as the cause: a rank may see that its peer is gone before the host does.
const deathGrace = 100 * time.Millisecond

// isDeath reports whether err says that a rank's process has died.
func isDeath(err error) bool {
	var died *record.ExitError
	return errors.As(err, &died)
}

// awaitAll runs call for several ranks at once, as callAll does.
func awaitAll[T any](ctx context.Context, list []int, call func(ctx context.Context, r int) (T,
	error)) ([]T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	values := make([]T, len(list))
	var (
		waiting sync.WaitGroup
		mu      sync.Mutex
		first   error
	)
	for i, r := range list {
		waiting.Go(func() {
			var err error
			values[i], err = call(ctx, r)
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case isDeath(err):
				if !isDeath(first) {
					first = err
				}
				cancel()
			case first == nil:
				first = err
				time.AfterFunc(deathGrace, cancel)
			}
		})
	}
	waiting.Wait()
	return values, first
}

// close closes every launched rank, within timeout, and returns the error of each by rank.
func (rs *ranks) close(ctx context.Context, timeout time.Duration) []error {
	errs := make([]error, len(rs.processes))
	var waiting sync.WaitGroup
	for r := range errs {
		p := rs.process(r)
		if p == nil {
			continue
		}
		waiting.Go(func() { // unlike callAll, one failure does not end the other calls
			_, errs[r] = callRank(ctx, rs, r, "close", timeout,
				func(ctx context.Context) (struct{}, error) { return struct{}{}, p.Close(ctx) })
		})
	}
	waiting.Wait()
	return errs
}

// kill kills all ranks, and those still being launched as soon as they are. It then waits for the
// calls in progress, for closeTimeout at most: a call may outlive its process only by a fault of
// the launcher.
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
	case <-time.After(closeTimeout):
	}
}
