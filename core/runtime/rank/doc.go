// Package rank is the measured runtime of one process: daemon threads that serve the
// key-value store, client threads that call it, and the windows of load that they run
// together. It drives every transport through core/transport and has the only benchmark
// loops of the project, so a difference between two transports never comes from the loop.
//
// A [Rank] lives in the plugin's process and implements [record.Control], by which the host
// drives it. It does not assume that the host is its parent process or on the same machine.
//
// Where to find things:
//
//   - rank.go, thread.go, run.go: the control path (prepare, connect, run, close), the polling
//     threads, and a window from start to report
//   - wiring.go: which thread is connected to which, and where a client sends a key
//   - client.go, client_requests.go, client_window.go: the client, its requests, and a window
//   - replayed_datapath.go, drawn_datapath.go, open_datapath.go: the three loops of a client, and
//     client_datapath.go what they share; schedule.go has the open loop's arrivals, iterations.go
//     the timing of iterations, peers.go the counts by rank
//   - storm.go: connections that come and go
//   - daemon.go, daemon_datapath.go: the daemon and its loop; proxy.go adds the links to local
//     clients in mesh-proxied, device.go the check of values in device memory
//   - idle.go: spin, yield or park; stats.go and looptimer.go: sampling and timing; gaps.go: times
//     without progress; stages.go: the parts of a call
//   - overhead.go: the cost of the loops themselves; bare_datapath.go: that of the transport
//     without them
package rank
