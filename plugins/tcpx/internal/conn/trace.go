package conn

import (
	"fmt"
	"time"

	"transportbench/core/fabric/clock"
	"transportbench/core/transport"
)

// traced is a request that has ended, with the times at which it passed its steps by the clock of
// the process.
type traced struct {
	peer  transport.PeerID
	kind  *traceKind
	slot  uint64
	size  int
	times [5]int64
}

// traceKind names the requests of one direction and their steps.
type traceKind struct {
	name  string
	steps []string
}

// The steps of a receive are those of the walk-through of TCPX: t0, the receive is posted; t1, all
// bytes are in bounce memory; t2, unpacking is launched; t3, it has ended; t4, the receive is
// consumed, which gives its bounce memory back.
var (
	receiveTrace = traceKind{"receive", []string{"t0-t1 in flight",
		"t1-t2 waiting for the unpacker", "t2-t3 unpacking", "t3-t4 to be consumed"}}
	sendTrace = traceKind{"send", []string{"waiting for credit and a data socket", "sending",
		"to be acknowledged"}}
)

// transfers returns the trace.
func (k *Counters) transfers() (list []transport.Transfer) {
	start := time.Now().UnixNano() - clock.Now() // of the process's clock
	for i := range k.trace {
		t := &k.trace[i]
		one := transport.Transfer{Peer: t.peer, Lane: fmt.Sprintf("%s %d", t.kind.name, t.slot),
			Size: t.size}
		at := t.times[0]
		for i, step := range t.kind.steps {
			at = max(at, t.times[i]) // a step that was passed before the trace began has no time
			one.Steps = append(one.Steps, transport.Step{Name: step, Begin: start + at})
		}
		one.End = start + max(at, t.times[len(t.kind.steps)])
		list = append(list, one)
	}
	return list
}

// tracing reports whether there is room for another request in the trace.
func (k *Counters) tracing() bool { return len(k.trace) < cap(k.trace) }

// traceRequest records a request that has ended, if there is room for it.
func (k *Counters) traceRequest(t traced) {
	if k.tracing() {
		k.trace = append(k.trace, t)
	}
}
