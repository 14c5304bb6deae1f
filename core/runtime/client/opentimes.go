package client

import (
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/loop"
)

// openTimes are the times that only an open-loop client records.
type openTimes struct {
	// response has the response times by the step of the window in which the operations ended. All
	// steps have one Timing unless they are reported.
	response  [record.Steps]*loop.Timing
	lag       *loop.Timing
	scheduled uint64
	// By call, in ticks: when it was due, and how late it was issued, counted from when it was due
	// or, if that is later, from when the client had room for it.
	intended, late []uint64
}

// steppedClients is the largest number of clients of a rank that report steps: each takes 13 MiB of
// memory for them.
const steppedClients = 16

func newOpenTimes(calls int, stepped bool) *openTimes {
	o := &openTimes{lag: loop.NewTiming(), intended: make([]uint64, calls),
		late: make([]uint64, calls)}
	for i := range o.response {
		if i == 0 || stepped {
			o.response[i] = loop.NewTiming()
		} else {
			o.response[i] = o.response[0]
		}
	}
	return o
}

// steps returns the response times without repetition.
func (o *openTimes) steps() []*loop.Timing {
	if o.response[0] == o.response[1] {
		return o.response[:1]
	}
	return o.response[:]
}

func (o *openTimes) reset() {
	for _, t := range o.steps() {
		t.Reset()
	}
	o.lag.Reset()
	o.scheduled = 0
}

func (o *openTimes) report(clock *machine.Clock) *record.OpenReport {
	r := &record.OpenReport{Scheduled: o.scheduled, Lag: o.lag.Report(clock)}
	all := o.response[0]
	if steps := o.steps(); len(steps) > 1 {
		all = loop.NewTiming()
		for _, t := range steps {
			all.Add(t)
			r.Steps = append(r.Steps, t.Outline(clock))
		}
	}
	r.Response = all.Report(clock)
	return r
}
