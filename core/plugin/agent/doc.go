// Package agent starts ranks on other hosts. [Serve] is the agent's end of a connection, [Connect]
// the coordinator's; core/lab/experiment/hosts makes the connection.
//
// The agent is a gRPC server although it has dialled. It starts only files transport-NAME of its
// own plugin directories that have exactly the coordinator's SHA-256, and the benchmarks that
// core/lab/experiment/witness knows, found in PATH. No path, argument or variable comes from the
// network, except names and addresses in places that the table of core/lab/experiment/witness has
// for them. When the connection ends, in whatever way, it ends all its ranks and benchmarks.
//
// Calls of a rank pass through the agent, which checks the answers like a host (core/plugin/host)
// and knows how the process ended and what it wrote last.
package agent
