package runner

import (
	"time"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/witness"
	"transportbench/core/transport"
)

// Beside says what a run measures beside its windows.
type Beside struct {
	// StateOnly measures windows and the core distances around them. It leaves out the overhead of
	// the harness and the floors. It is for many short launches of
	// which only differences between windows are used; their results are not for users.
	StateOnly bool
	// Witness asks for a reference tool beside the windows (package witness).
	Witness bool
}

// Start is about how long it takes to start, prepare and connect one or two ranks, to close them,
// and to check and store the result, as the committed results of v0.8.0 have it.
const Start = 65 * time.Millisecond

// What a launch takes besides Start, warm-up and windows. Another rank of a mesh is a process with
// daemon, clients and connections to the others, and took rankTime in the committed results of
// v0.9.0, with 4 to 16 ranks on two processors; one with clients alone took half of it, with 9
// ranks. A client has a thread and connections to start, too. usualFill is the rate, in B/s, of
// filling a store. A window with its probes takes longer by the time to fill largeMoves messages:
// buffers get their pages, and a probe moves each message several times.
const (
	rankTime   = 55 * time.Millisecond
	clientTime = 10 * time.Millisecond
	usualFill  = 1 << 30
	largeMoves = 80
)

// steadyTime is about when a warm-up is steady and ends: after steadyRounds of progress, some of
// which are not steady yet.
const steadyTime = 100 * time.Millisecond

// remeasuredShare is the share of windows that are measured again because the machine changed its
// state. It is 1% in the committed results of v0.8.0 and 25% in those of a busier machine in
// v0.5.0; maxRemeasure bounds it.
const remeasuredShare = 0.1

// Expected returns about how long a run takes. declared is what its transport says of itself.
func Expected(c config.Config, declared *transport.Info, b Beside) time.Duration {
	fill := float64(c.StoredKeys()) * (c.ValueSize.Mean() + 64) / usualFill
	another := rankTime
	if !c.Mesh() {
		another /= 2
	}
	launch := Start + time.Duration(max(0, c.Ranks-2))*another +
		time.Duration(c.TotalClients()-1)*clientTime +
		time.Duration(fill*float64(time.Second)) + min(time.Duration(c.Warmup), steadyTime)
	window := windowTime(c, b) +
		time.Duration(largeMoves*c.ValueSize.Mean()/usualFill*float64(time.Second))
	if b.Witness {
		find, reading := witness.Expected(declared.References,
			witnessLoad(c, c.Options[declared.Roles.Address]))
		launch += find
		window += 2 * reading
	}
	windows := float64(c.Repeats) * (1 + remeasuredShare)
	return time.Duration(len(c.RepeatsByLaunch()))*launch + time.Duration(windows*float64(window))
}

// windowTime is the planned time of a window with what is measured beside it, except for a witness.
func windowTime(c config.Config, b Beside) time.Duration {
	return overheadPlanned(c, b) + time.Duration(c.Duration) + timeAlone(c) + 2*probesPlanned(c, b)
}

// overheadPlanned is the planned time of measuring the overhead of the harness.
func overheadPlanned(c config.Config, b Beside) time.Duration {
	if b.StateOnly {
		return 0
	}
	return beside(c, overheadTime)
}

// probesPlanned is the planned time of the probes on one side of a window.
func probesPlanned(c config.Config, b Beside) time.Duration {
	if b.StateOnly {
		return beside(c, distanceTime)
	}
	kinds := time.Duration(len(floorKinds) + 1) // and that of the transport alone
	return beside(c, distanceTime+kinds*(floorTime+distanceTime))
}
