package analyze

import "transportbench/core/lab/consistency"

// Model is a closed queueing network whose stations are those of the runtime:
// clients and daemons, at which calls queue, and the medium, where a call waits
// for nobody. It is solved by exact mean value analysis (Reiser and Lavenberg,
// Mean-Value Analysis of Closed Multichain Queuing Networks, 1980).
type Model struct {
	Clients      int `json:"clients"` // of each calling rank
	Daemons      int `json:"daemons"` // of each serving rank
	InFlight     int `json:"in_flight"`
	CallingRanks int `json:"calling_ranks"`
	ServingRanks int `json:"serving_ranks"`
	// Transported is the part of the requests that go over the transport, and
	// RemoteShare that which goes to other ranks.
	Transported float64 `json:"transported"`
	RemoteShare float64 `json:"remote_share"`
	// ClientTime and DaemonTime are what one operation keeps a client and the
	// daemons busy for, in nanoseconds.
	ClientTime float64 `json:"client_ns"`
	DaemonTime float64 `json:"daemon_ns"`
	// Delay is the rest of an operation's time, so chosen that the model gives
	// the throughput that was measured; where a station is saturated, which hides
	// it, the floor. RoundTrip is the part of it that each transported request
	// spends on the medium: the floor, 0 where unknown.
	Delay     float64 `json:"delay_ns"`
	RoundTrip float64 `json:"round_trip_ns"`
	// Local and Remote are the mean times of such requests in a mesh, and
	// Expected what a client completes by their mix, in op/s, where there are
	// both. Measured is what it completed.
	Local    float64 `json:"local_ns,omitempty"`
	Remote   float64 `json:"remote_ns,omitempty"`
	Expected float64 `json:"expected_per_client,omitempty"`
	Measured float64 `json:"measured_per_client"`
	// Running is the share of the windows in which polling threads that never
	// give their processors away had one; 1 for others.
	Running float64 `json:"running"`
	// Processors and CPUPerOp bound a load whose threads share processors; 0
	// where each has its own.
	Processors int     `json:"processors,omitempty"`
	CPUPerOp   float64 `json:"cpu_per_op_ns,omitempty"`
}

// network is what mean value analysis needs.
type network struct {
	calls            int
	clients, daemons int
	client, daemon   float64 // service demands in ns, of one operation
	delay            float64
}

// solve returns the throughput in operations per ns and the time of a call.
// Clients are alike, and so are daemons: a call finds any of them with the same
// chance, so that one queue stands for all of a kind.
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

// calibrated returns the network with the delay by which it has a throughput, or
// with none where it has less without any.
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

// model takes the stations' times from the results.
func (e *evidence) model(s utilization) *Model {
	if e.open() || s.perOp == 0 {
		return nil
	}
	m := &Model{
		Clients: e.cfg.Clients, Daemons: e.cfg.Daemons, InFlight: e.cfg.InFlight,
		CallingRanks: e.cfg.CallingRanks(), ServingRanks: e.cfg.ServingRanks(), Transported: e.transported(), RemoteShare: 1,
		ClientTime: e.harness.PerOpNS, DaemonTime: s.perOp, RoundTrip: e.floor,
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
	if m.InFlight > 1 && s.client > 0 { // with one, waiting for it looks like work
		m.ClientTime = max(m.ClientTime, s.client*float64(e.clients())/e.throughput*1e9)
	}
	n := m.network()
	m.Delay = n.calibrated(e.throughput / 1e9).delay
	if m.RoundTrip > 0 && n.calls > max(n.clients, n.daemons) && e.throughput/1e9 >= saturated*n.most() {
		m.Delay = m.Transported * m.RoundTrip
	}
	return m
}

// most is the throughput at which a station is busy all the time.
func (n network) most() float64 {
	return min(float64(n.clients)/n.client, float64(n.daemons)/n.daemon)
}

func (m *Model) network() network {
	return network{calls: m.calls(), clients: m.Clients * m.CallingRanks, daemons: m.Daemons * m.ServingRanks,
		client: m.ClientTime, daemon: m.DaemonTime, delay: m.Delay}
}

// calls are those in flight over all ranks.
func (m *Model) calls() int { return m.Clients * m.CallingRanks * m.InFlight }
