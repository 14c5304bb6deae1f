package rank

import (
	"errors"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

// counters are a thread's hardware counters, or the reason why it has none.
type counters struct {
	*machine.Counters
	reason string
}

// oversubscribedCounters is why threads that give their core away have none:
// every switch between threads saves and restores them, which takes tens of
// microseconds where a hypervisor emulates the registers.
const oversubscribedCounters = "hardware counters are read with --idle spin only: saving and restoring them would slow every switch between threads"

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

// usage is what the calling thread had used when a window began.
type usage struct {
	counters *counters
	thread   machine.ThreadUsage
	events   map[string]uint64
	err      error
}

func newUsage(c *counters) *usage {
	u := &usage{counters: c, events: c.read()}
	u.thread, u.err = machine.ReadThreadUsage()
	return u
}

// since returns what it has used from then on.
func (u *usage) since() record.ThreadReport {
	now, err := machine.ReadThreadUsage()
	var r record.ThreadReport
	if errors.Join(u.err, err) == nil {
		d := now.Sub(u.thread)
		r.CPUNS, r.Voluntary, r.Involuntary = d.CPUNS, d.Voluntary, d.Involuntary
		r.MinorFaults, r.MajorFaults, r.Migrations = d.MinorFaults, d.MajorFaults, d.Migrations
	}
	if events := u.counters.read(); events != nil && u.events != nil {
		r.Counters = make(map[string]uint64, len(events))
		for name, value := range events {
			if began, had := u.events[name]; had {
				r.Counters[name] = value - began
			}
		}
	}
	return r
}
