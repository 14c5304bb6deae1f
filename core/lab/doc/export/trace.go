package export

import (
	"encoding/json"
	"fmt"
	"io"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// Trace is what the threads of one transport recorded of their transfers.
type Trace struct {
	Transport string
	Threads   []record.ThreadTrace
}

// traceEvent is an event of Chrome's trace format (Google, "Trace Event Format", 2016), which
// Perfetto reads: a step with its time ("X"), or the name of a process or thread ("M").
type traceEvent struct {
	Phase    string         `json:"ph"`
	Name     string         `json:"name"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Begin    float64        `json:"ts"` // microseconds
	Duration float64        `json:"dur,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// ChromeTrace writes the steps of transfers in Chrome's trace format: a process for each polling
// thread, in which each lane of a connection is a thread. Time begins with the first step. It
// returns the number of transfers.
func ChromeTrace(w io.Writer, traces []Trace) (transfers int, err error) {
	t := tracer{lanes: map[lane]int{}}
	for _, of := range traces {
		for _, thread := range of.Threads {
			t.process++
			t.name("process_name", 0, fmt.Sprintf("%s, %v", of.Transport, thread.Thread))
			for i := range thread.Transfers {
				t.add(&thread.Transfers[i])
			}
		}
	}
	for i := range t.events {
		if e := &t.events[i]; e.Phase == "X" {
			e.Begin = float64(t.begins[i]-t.first) / 1e3
		}
	}
	return t.transfers, json.NewEncoder(w).Encode(map[string]any{"displayTimeUnit": "ns",
		"traceEvents": t.events})
}

// lane is a lane of a connection of a polling thread.
type lane struct {
	process int
	peer    transport.PeerID
	name    string
}

// tracer collects events.
type tracer struct {
	events    []traceEvent
	begins    []int64 // of the events, in nanoseconds since 1970, of which float64 has not all
	first     int64
	process   int
	lanes     map[lane]int
	transfers int
}

func (t *tracer) append(e traceEvent, begin int64) {
	e.Process = t.process
	t.events, t.begins = append(t.events, e), append(t.begins, begin)
}

func (t *tracer) name(what string, thread int, name string) {
	t.append(traceEvent{Phase: "M", Name: what, Thread: thread, Args: map[string]any{"name": name}},
		0)
}

func (t *tracer) add(one *transport.Transfer) {
	at := lane{t.process, one.Peer, one.Lane}
	number, known := t.lanes[at]
	if !known {
		number = len(t.lanes) + 1
		t.lanes[at] = number
		t.name("thread_name", number, fmt.Sprintf("connection %d, %s", one.Peer, one.Lane))
	}
	t.transfers++
	for k, step := range one.Steps {
		end := one.End
		if k+1 < len(one.Steps) {
			end = one.Steps[k+1].Begin
		}
		if t.first == 0 || step.Begin < t.first {
			t.first = step.Begin
		}
		t.append(traceEvent{
			Phase: "X", Name: step.Name, Thread: number, Duration: float64(end-step.Begin) / 1e3,
			Args: map[string]any{"bytes": one.Size},
		}, step.Begin)
	}
}
