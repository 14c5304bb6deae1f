package attempt

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// T is one run of a function. It has the methods of testing.TB that testify needs. FailNow ends
// only the calling goroutine; the goroutines of Parallel may call it too.
type T struct {
	ctx context.Context // ends at the time limit

	mu       sync.Mutex
	failed   bool
	lines    []string
	cleanups []func()
}

// grace is the additional time for a function to fail with a better message than that it hangs.
func grace(limit time.Duration) time.Duration {
	return min(limit/2, time.Second) + 100*time.Millisecond
}

// Run calls f on a goroutine, and returns whether it failed, and the lines of its failures, once it
// has returned or the time limit has passed. The goroutine of a function that hangs stays, and what
// it holds stays open.
func Run(limit time.Duration, f func(*T)) (failed bool, lines []string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t := &T{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		defer t.cleanup()
		defer t.recoverPanic()
		f(t)
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

func (t *T) recoverPanic() {
	if p := recover(); p != nil {
		t.Errorf("panicked: %v\n%s", p, debug.Stack())
	}
}

func (t *T) cleanup() {
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

// stacks returns the stacks of the goroutines of functions that run.
func stacks() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var ours []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, "transporttest/attempt.") &&
			!strings.Contains(stack, "attempt.stacks") {
			ours = append(ours, stack)
		}
	}
	return strings.Join(ours, "\n\n")
}

// Errorf records a failure.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
	t.lines = append(t.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// FailNow ends the calling goroutine.
func (t *T) FailNow() {
	t.mu.Lock()
	t.failed = true
	t.mu.Unlock()
	runtime.Goexit()
}

// Failed reports whether any goroutine has failed.
func (t *T) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Helper is for testify.
func (t *T) Helper() {}

// Cleanup runs f after the function. The last function runs first.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// Context returns a context that ends at the time limit.
func (t *T) Context() context.Context { return t.ctx }

// Fatalf records a failure and ends the calling goroutine.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.FailNow()
}

// spinsBeforeSleep is the number of yields before a wait sleeps. Most waits end much
// earlier.
const spinsBeforeSleep = 2000

// Pause is the body of every wait. It fails the function if its time is over, otherwise lets other
// goroutines run. spins is the number of calls in this wait.
func (t *T) Pause(spins int, format string, args ...any) {
	switch {
	case t.ctx.Err() != nil:
		t.Fatalf("timed out waiting for "+format, args...)
	case t.Failed():
		t.FailNow()
	case spins < spinsBeforeSleep:
		runtime.Gosched()
	default:
		time.Sleep(50 * time.Microsecond)
	}
}

// Parallel runs each function on a new thread and waits for all of them.
func (t *T) Parallel(functions ...func()) {
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
