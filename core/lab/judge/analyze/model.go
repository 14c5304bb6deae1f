package analyze

import (
	"transportbench/core/base/config"
	"transportbench/core/lab/judge/consistency"
)

// Model is a closed queueing network with a class of calls for each client. The calls of a client
// queue at that client and at the daemons, which they choose at random; the medium is a pure delay.
// So a client with one call in flight never waits for itself. It is solved exactly, or
// for more than 1024 calls by the bound that holds if no call waits for another.
//
// Service times are exponential. Those that vary less make calls wait less: with fixed ones,
// clients with one call each fall into step and wait for a single daemon only once it is always
// busy. With a delay of ten times the daemon's time, the model has 97% of that throughput for 4
// clients, 84% for 11, which are just enough to keep the daemon busy, and 98% for 16.
//
// The model has no batches: with more calls in flight, an iteration takes several messages for one
// doorbell, so transports gain more than it predicts. A cost per iteration and another per message
// could only be told apart by results at two numbers of calls in flight.
type Model struct {
	Clients      int `json:"clients"` // per calling rank
	Daemons      int `json:"daemons"` // per serving rank
	InFlight     int `json:"in_flight"`
	CallingRanks int `json:"calling_ranks"`
	ServingRanks int `json:"serving_ranks"`
	// Transported is the share of the requests that use the transport, and RemoteShare the share
	// that goes to other ranks.
	Transported float64 `json:"transported"`
	RemoteShare float64 `json:"remote_share"`
	// ClientTime and DaemonTime are the times in nanoseconds that one operation keeps a client and
	// the daemons busy.
	ClientTime float64 `json:"client_ns"`
	DaemonTime float64 `json:"daemon_ns"`
	// Delay is the rest of an operation's time, chosen to give the measured throughput. If a
	// station is saturated, which hides the delay, it is the floor. RoundTrip is the time of a
	// transported request on the medium: the floor, or 0 if unknown.
	Delay     float64 `json:"delay_ns"`
	RoundTrip float64 `json:"round_trip_ns"`
	// Local and Remote are the mean times of such requests in a mesh with both, and Expected the
	// op/s of a client that follow from their mix. Measured is the op/s of a client.
	Local    float64 `json:"local_ns,omitempty"`
	Remote   float64 `json:"remote_ns,omitempty"`
	Expected float64 `json:"expected_per_client,omitempty"`
	Measured float64 `json:"measured_per_client"`
	// Running is the share of the windows in which spinning threads had a processor; 1 for threads
	// that yield or park.
	Running float64 `json:"running"`
	// Processors and CPUPerOp limit a load whose threads share processors; both are 0 if each
	// thread has its own.
	Processors int     `json:"processors,omitempty"`
	CPUPerOp   float64 `json:"cpu_per_op_ns,omitempty"`
}

// model returns the model of the measured configuration, or nil if times are missing, the loop is
// open, or clients have different loads.
func (e *measurements) model(s utilization) *Model {
	if load := e.cfg.Load(); load == config.LoadOpen || load == config.LoadClasses || s.perOp == 0 {
		return nil
	}
	m := &Model{
		Clients: e.cfg.Clients, Daemons: e.cfg.Daemons, InFlight: e.cfg.InFlight,
		CallingRanks: e.cfg.CallingRanks(), ServingRanks: e.cfg.ServingRanks(),
		Transported: e.transported(), RemoteShare: 1,
		ClientTime: e.clientHarness(), DaemonTime: s.perOp, RoundTrip: e.floor,
		Measured: e.throughput / float64(max(e.clients(), 1)), Running: 1,
	}
	if e.spins {
		m.Running = s.running
	}
	if c, over := e.failedCheck("oversubscribed"); over {
		m.Processors, m.CPUPerOp = int(c.Limit), (e.clientCPU+e.daemonCPU)/e.ops
	}
	if local, remote, share, ok := e.mix(); ok {
		m.Local, m.Remote, m.RemoteShare = local, remote, share
		m.Expected = float64(m.InFlight) / consistency.MixedMean(local, remote, share) * 1e9
	}
	if m.InFlight > 1 { // with one call in flight, waiting looks like work
		m.ClientTime = max(m.ClientTime, s.clientPerOp)
	}
	n := m.network()
	m.Delay = n.calibrated(e.throughput / 1e9).delay
	if m.RoundTrip > 0 && e.throughput/1e9 >= saturated*n.saturation() {
		m.Delay = m.Transported * m.RoundTrip
	}
	return m
}

func (m *Model) network() network {
	return network{clients: m.Clients * m.CallingRanks, inFlight: m.InFlight,
		daemons: m.Daemons * m.ServingRanks,
		client:  m.ClientTime, daemon: m.DaemonTime, delay: m.Delay}
}

// calls returns the calls in flight over all ranks.
func (m *Model) calls() int { return m.Clients * m.CallingRanks * m.InFlight }
