package rank

import (
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/client"
)

// group is the clients of a rank that share a processor and yield it to each other. One OS thread
// serves them in turn: an iteration of the next one costs nanoseconds, and a switch of threads
// microseconds. Each is a client as any other, with its own worker, calls, clock and report.
type group struct {
	threads []*thread
}

// follows reports whether t is in the group and another began it. A nil group is empty.
func (c *group) follows(t *thread) bool { return c != nil && c.threads[0] != t }

// size returns how many clients share the thread; it is 1 for a nil group.
func (c *group) size() int {
	if c == nil {
		return 1
	}
	return len(c.threads)
}

// members returns the threads of the group, or t alone for a nil group.
func (c *group) members(t *thread) []*thread {
	if c == nil {
		return []*thread{t}
	}
	return c.threads
}

// addThread starts a thread. A client that yields shares the OS thread of an earlier client on the
// same processor.
func (r *Rank) addThread(id record.Thread, cpu int) (t *thread) {
	defer func() { r.threads = append(r.threads, t) }()
	if id.IsDaemon() || r.plan.Idle != config.IdleYield || cpu < 0 || r.goroutines() {
		return startThread(id, cpu, !r.goroutines())
	}
	for _, other := range r.threads {
		if other.cpu != cpu || other.id.IsDaemon() {
			continue
		}
		if other.group == nil {
			other.group = &group{threads: []*thread{other}}
		}
		t = other.join(id)
		t.group = other.group
		t.group.threads = append(t.group.threads, t)
		return t
	}
	return startThread(id, cpu, true)
}

// runGroup runs the window of a group on its thread. results begin with the result of the first
// member.
func (r *Rank) runGroup(c *group, results []threadResult, run *windowRun, length time.Duration) {
	first := c.threads[0].id.Client
	windows := make([]*threadWindow, len(c.threads))
	for i, t := range c.threads {
		windows[i] = r.newThreadWindow(t, &results[t.id.Client-first], run, length)
		run.entered.Done()
	}
	members := make([]client.Member, len(windows))
	for i, w := range windows {
		members[i] = client.Member{Client: w.t.client, AtBegin: w.begin, AtEnd: w.end}
	}
	errs := client.RunTogether(&r.state, members, func() { r.advance(record.StateStopped) })
	for i, w := range windows {
		w.finish(errs[i])
	}
}
