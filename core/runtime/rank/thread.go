package rank

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/client"
	"transportbench/core/runtime/daemon"
	"transportbench/core/transport"
)

// thread is one polling thread: an OS thread that runs a daemon or a client, or a goroutine for a
// transport with goroutines.
type thread struct {
	id     record.Thread
	cpu    int // -1 if it may run anywhere
	locked bool
	work   chan func()
	done   chan struct{}
	group  *group // the clients that have this OS thread in common; nil for others

	worker   transport.Worker // a client of mesh-proxied has a link here
	daemon   *daemon.Daemon   // nil for a client
	client   *client.Client   // nil for a daemon
	overhead *overhead        // nil until it is measured
	counters *counters
	connects connects

	// unanswered are the calls of failed probes whose answers may still come.
	unanswered int
}

// startThread starts a goroutine, which runs the functions that do is given until end is called.
// It is locked to an OS thread unless the goroutines of a transport share threads with it: to
// switch between a locked goroutine and another takes two switches of threads, which doubled the
// round trips of gRPC.
func startThread(id record.Thread, cpu int, locked bool) *thread {
	t := &thread{id: id, cpu: cpu, locked: locked, work: make(chan func()),
		done: make(chan struct{})}
	go func() {
		defer close(t.done)
		if locked {
			// Never unlocked: the OS thread exits with the goroutine, so its affinity does not
			// leak to other goroutines.
			runtime.LockOSThread()
		}
		for f := range t.work {
			f()
		}
	}()
	return t
}

// join returns a thread that shares t's OS thread: their functions run one after another.
func (t *thread) join(id record.Thread) *thread {
	return &thread{id: id, cpu: t.cpu, locked: t.locked, work: t.work, done: t.done}
}

// do runs f on the thread and returns its error. If ctx ends first, do returns and f goes on.
func (t *thread) do(ctx context.Context, f func() error) error {
	_, err := get(ctx, t, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// get is do for a function with a result. If ctx ends first, get returns the zero value and f goes
// on, so f must not write to variables of its caller.
func get[T any](ctx context.Context, t *thread, f func() (T, error)) (value T, err error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	work := func() {
		v, err := f()
		done <- outcome{v, err}
	}
	select {
	case t.work <- work:
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// pin names the calling thread, binds it to its processor and returns the affinity that the kernel
// reports. Call it after the worker is made, so that threads of a native library do not
// inherit the name and the affinity.
func (t *thread) pin() (affinity string, err error) {
	if t.locked && !t.group.follows(t) {
		// a sandbox may have no such file, and only profilers look at it
		_ = machine.NameThread(t.id.Name())
	}
	if t.cpu >= 0 && t.locked {
		if err := machine.Pin(t.cpu); err != nil {
			return "", fmt.Errorf("pin a polling thread to processor %d: %w; try --pin=false",
				t.cpu, err)
		}
	}
	return machine.Affinity()
}

// release closes what the thread holds; it runs on the thread.
func (t *thread) release() error {
	var errs []error
	if t.worker != nil {
		errs = append(errs, t.worker.Close())
	}
	if t.counters != nil {
		errs = append(errs, t.counters.close())
	}
	if t.daemon != nil {
		errs = append(errs, t.daemon.Close())
	}
	if t.client != nil {
		errs = append(errs, t.client.Close())
	}
	if t.overhead != nil {
		errs = append(errs, t.overhead.close())
	}
	return errors.Join(errs...)
}

// end waits for the last function and ends the thread, for all that share it.
func (t *thread) end() {
	if t.group.follows(t) {
		return
	}
	close(t.work)
	<-t.done
}

// counters are the hardware counters of a thread, or the reason why it has none.
type counters struct {
	*machine.Counters
	reason string
}

// countersNeedSpin is the reason for threads that give up their core: the kernel saves and
// restores the counters at every context switch, which takes tens of microseconds if a
// hypervisor emulates the registers.
const countersNeedSpin = "hardware counters are read with --idle spin only: saving and restoring " +
	"them slows every context switch"

// countersNeedThread is the reason for polling loops that are goroutines.
const countersNeedThread = "the kernel counts for threads, and with this transport the polling " +
	"loops are goroutines, which move between threads"

func openCounters() *counters {
	c, err := machine.OpenCounters()
	if err != nil {
		return &counters{reason: err.Error()}
	}
	return &counters{Counters: c}
}

func (c *counters) read() map[string]uint64 {
	if c.Counters == nil {
		return nil
	}
	values, err := c.Read()
	if err != nil {
		c.reason = err.Error()
		return nil
	}
	return values
}

func (c *counters) close() error {
	if c.Counters == nil {
		return nil
	}
	return c.Close()
}

// usage is the calling thread's resource usage at the start of a window. For a goroutine it has
// the time only, because the kernel counts for threads.
type usage struct {
	counters *counters
	sharing  int // clients of the thread
	locked   bool
	thread   machine.Usage
	events   map[string]uint64
	err      error
	ticks    uint64 // the start on the clock
	start    uint64 // and on the kernel's monotonic clock
}

func (t *thread) usage() *usage {
	u := &usage{counters: t.counters, sharing: t.group.size(), locked: t.locked,
		events: t.counters.read()}
	if u.locked {
		u.thread, u.err = machine.ReadThreadUsage()
	}
	u.ticks, u.start = machine.Calibrated().Both()
	return u
}

// since returns the usage since then.
func (u *usage) since() record.ThreadReport {
	clock := machine.Calibrated()
	ticks, end := clock.Both()
	r := record.ThreadReport{StartNS: u.start, MonotonicNS: end - u.start,
		ClockNS: clock.Nanos(ticks - u.ticks)}
	if u.sharing > 1 {
		r.Sharing = u.sharing
	}
	if !u.locked {
		return r
	}
	now, err := machine.ReadThreadUsage()
	if errors.Join(u.err, err) == nil {
		d, part := now.Sub(u.thread), uint64(u.sharing)
		r.CPUNS, r.SystemNS, r.Voluntary, r.Involuntary = d.CPUNS/part, d.SystemNS/part,
			d.Voluntary/part, d.Involuntary/part
		r.MinorFaults, r.MajorFaults, r.Migrations = d.MinorFaults/part, d.MajorFaults/part,
			d.Migrations/part
	}
	r.Counters = machine.CountersSince(u.events, u.counters.read())
	return r
}
