package analyze

// Model is a closed queueing network whose stations are those of the runtime:
// clients, daemons, and the medium, where a call waits for nobody.
type Model struct {
	Clients  int `json:"clients"`
	Daemons  int `json:"daemons"`
	InFlight int `json:"in_flight"` // of each client
	// RemoteShare is the part of the requests that go to other ranks; 1 in
	// client-server.
	RemoteShare float64 `json:"remote_share"`
	// ClientTime and DaemonTime are what one operation keeps a client and the
	// daemons busy for, in nanoseconds.
	ClientTime float64 `json:"client_ns"`
	DaemonTime float64 `json:"daemon_ns"`
	// LocalDelay and RemoteDelay are the rest of the times of local and remote
	// requests.
	LocalDelay  float64 `json:"local_delay_ns"`
	RemoteDelay float64 `json:"remote_delay_ns"`
	// RoundTrip is the part of RemoteDelay that the medium takes: the floor.
	RoundTrip float64 `json:"round_trip_ns"`
	// Expected is the throughput of each client by the mix of local and remote
	// mean times, and Measured what it was, in op/s.
	Expected float64 `json:"expected_per_client"`
	Measured float64 `json:"measured_per_client"`
}

// Prediction is what the model expects of another configuration.
type Prediction struct {
	Change     string  `json:"change"`     // as it was given
	Throughput float64 `json:"throughput"` // op/s of all clients
	Latency    float64 `json:"latency_ns"` // mean
	// Base is what the model says of the measured configuration, and Measured
	// what was measured there.
	Base     float64 `json:"base_throughput"`
	Measured float64 `json:"measured_throughput"`
	Bound    Bound   `json:"bound"`
	Message  string  `json:"message"`
}
