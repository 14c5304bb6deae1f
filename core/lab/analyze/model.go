package analyze

import "transportbench/core/lab/consistency"

// Model is a closed queueing network. Calls queue at clients and daemons; the medium is a pure
// delay. It is solved by exact mean value analysis (Reiser and Lavenberg, Mean-Value Analysis of
// Closed Multichain Queuing Networks, 1980). It has no batches: with more calls in flight, an
// iteration takes several messages for one doorbell, so transports gain more than it predicts. A
// cost per iteration and another per message could only be told apart by results at two numbers of
// calls in flight.
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

// network is the input of mean value analysis.
type network struct {
	calls            int
	clients, daemons int
	client, daemon   float64 // service demands in ns, of one operation
	delay            float64
}

// solve returns the throughput in operations per ns and the time of a call. Calls are spread evenly
// over clients and over daemons, so one queue represents all of a kind.
func (n network) solve() (throughput, time float64) {
	type station struct {
		copies, demand, queue float64
	}
	stations := []station{
		{copies: float64(n.clients), demand: n.client / float64(max(n.clients, 1))},
		{copies: float64(n.daemons), demand: n.daemon / float64(max(n.daemons, 1))},
	}
	for calls := 1; calls <= n.calls; calls++ {
		time = n.delay
		var at [2]float64
		for i, s := range stations {
			at[i] = s.demand * (1 + s.queue)
			time += s.copies * at[i]
		}
		throughput = float64(calls) / time
		for i := range stations {
			stations[i].queue = throughput * at[i]
		}
	}
	return throughput, time
}

// calibrated returns the network with the delay that gives a throughput, or without delay if it
// cannot reach that.
func (n network) calibrated(throughput float64) network {
	n.delay = 0
	if x, _ := n.solve(); x <= throughput {
		return n
	}
	low, high := 0.0, float64(n.calls)/throughput
	for range 100 {
		n.delay = (low + high) / 2
		if x, _ := n.solve(); x > throughput {
			low = n.delay
		} else {
			high = n.delay
		}
	}
	return n
}

// model returns the model of the measured configuration, or nil if times are missing or the loop is
// open.
func (e *evidence) model(s utilization) *Model {
	if e.open() || s.perOp == 0 {
		return nil
	}
	m := &Model{
		Clients: e.cfg.Clients, Daemons: e.cfg.Daemons, InFlight: e.cfg.InFlight,
		CallingRanks: e.cfg.CallingRanks(), ServingRanks: e.cfg.ServingRanks(), Transported: e.transported(), RemoteShare: 1,
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
	if m.InFlight > 1 && s.client > 0 { // with one call in flight, waiting looks like work
		m.ClientTime = max(m.ClientTime, s.client*float64(e.clients())/e.throughput*1e9)
	}
	n := m.network()
	m.Delay = n.calibrated(e.throughput / 1e9).delay
	if m.RoundTrip > 0 && n.calls > max(n.clients, n.daemons) && e.throughput/1e9 >= saturated*n.most() {
		m.Delay = m.Transported * m.RoundTrip
	}
	return m
}

// most returns the throughput at which a station is always busy.
func (n network) most() float64 {
	return min(float64(n.clients)/n.client, float64(n.daemons)/n.daemon)
}

func (m *Model) network() network {
	return network{calls: m.calls(), clients: m.Clients * m.CallingRanks, daemons: m.Daemons * m.ServingRanks,
		client: m.ClientTime, daemon: m.DaemonTime, delay: m.Delay}
}

// calls returns the calls in flight over all ranks.
func (m *Model) calls() int { return m.Clients * m.CallingRanks * m.InFlight }
