package transporttest

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// trial is one run of one clause. It has the methods of testing.TB that clauses and testify need.
// It records failures instead of failing a test, so that a clause can also run against a transport
// that must fail it.
//
// FailNow ends only the calling goroutine; the goroutines of parallel may call it too.
type trial struct {
	suite  *Suite
	traits traits
	ctx    context.Context // ends at the clause's time limit

	mu       sync.Mutex
	failed   bool
	lines    []string
	cleanups []func()
}

// grace is the additional time for a clause to fail with a better message than that it hangs.
func grace(limit time.Duration) time.Duration {
	return min(limit/2, time.Second) + 100*time.Millisecond
}

// try runs c against s until it returns or its time limit has passed. The goroutine of a clause
// that hangs stays, and what it holds stays open.
func try(s *Suite, tr traits, c clause) (failed bool, lines []string) {
	limit := s.timeout()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t := &trial{suite: s, traits: tr, ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		defer t.cleanup()
		defer t.recoverPanic()
		c.run(t)
	}()
	select {
	case <-done:
	case <-time.After(limit + grace(limit)):
		t.Errorf("did not return within its limit of %v; it hangs here:\n%s", limit, stacks())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed, t.lines
}

func (t *trial) recoverPanic() {
	if p := recover(); p != nil {
		t.Errorf("panicked: %v\n%s", p, debug.Stack())
	}
}

func (t *trial) cleanup() {
	for {
		t.mu.Lock()
		if len(t.cleanups) == 0 {
			t.mu.Unlock()
			return
		}
		last := t.cleanups[len(t.cleanups)-1]
		t.cleanups = t.cleanups[:len(t.cleanups)-1]
		t.mu.Unlock()
		func() {
			defer t.recoverPanic()
			last()
		}()
	}
}

// stacks returns the stacks of the goroutines that run this package's code.
func stacks() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var ours []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, "transporttest.(*trial)") &&
			!strings.Contains(stack, "transporttest.stacks") {
			ours = append(ours, stack)
		}
	}
	return strings.Join(ours, "\n\n")
}

// Errorf records a failure.
func (t *trial) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
	t.lines = append(t.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// FailNow ends the calling goroutine.
func (t *trial) FailNow() {
	t.mu.Lock()
	t.failed = true
	t.mu.Unlock()
	runtime.Goexit()
}

// Failed reports whether any goroutine of the clause has failed.
func (t *trial) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Helper is for testify.
func (t *trial) Helper() {}

// Cleanup runs f after the clause. The last function runs first.
func (t *trial) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// Context returns a context that ends at the clause's time limit.
func (t *trial) Context() context.Context { return t.ctx }

// fatalf records a failure and ends the calling goroutine.
func (t *trial) fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.FailNow()
}

// spinsBeforeSleep is the number of yields before a waiting clause sleeps. Most waits end much
// earlier.
const spinsBeforeSleep = 2000

// pause is the body of every wait. It fails the clause if its time is over, otherwise lets other
// goroutines run. spins is the number of calls in this wait.
func (t *trial) pause(spins int, format string, args ...any) {
	switch {
	case t.ctx.Err() != nil:
		t.fatalf("timed out waiting for "+format, args...)
	case t.Failed():
		t.FailNow()
	case spins < spinsBeforeSleep:
		runtime.Gosched()
	default:
		time.Sleep(50 * time.Microsecond)
	}
}

// parallel runs each function on a new thread and waits for all of them.
func (t *trial) parallel(functions ...func()) {
	var all sync.WaitGroup
	for _, f := range functions {
		all.Go(func() {
			runtime.LockOSThread() // never unlocked, so the thread ends with the function
			defer t.recoverPanic()
			f()
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
