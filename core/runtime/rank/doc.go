// Package rank is the measured runtime of one process: daemon threads that serve the
// key-value store, client threads that call it, and the windows of load that they run
// together. It drives every transport through core/transport and has the only benchmark
// loops of the project, so a difference between two transports never comes from the loop.
//
// A [Rank] lives in the plugin's process and implements [record.Control], by which the host
// drives it. It does not assume that the host is its parent process or on the same machine.
//
// The packages below it have one part each: [client] and [daemon] the loops, [loop] what these
// share, [wiring] who is connected to whom. Here are:
//
//   - rank.go, thread.go, run.go: prepare, connect, run and close; the polling threads; and a
//     window from start to report
//   - group.go: clients that share a thread; storm.go: connections that come and go
//   - links.go: the shared memory between the threads of a rank; shared.go: that between the ranks
//     of a host, for probes and traces
//   - overhead.go: the cost of the loops themselves; bare_datapath.go: that of the transport
//     without them
//
// [client]: transportbench/core/runtime/client
// [daemon]: transportbench/core/runtime/daemon
// [loop]: transportbench/core/runtime/loop
// [wiring]: transportbench/core/runtime/wiring
package rank
