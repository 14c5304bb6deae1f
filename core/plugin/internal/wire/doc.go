// Package wire puts [rank.Control] on gRPC: [Server] in the plugin and [Client]
// in the host are the two ends of the protocol in core/plugin/controlpb, with
// the constants that both must agree on. How a process is started and found is
// not its concern: a client needs a connection only, so that a rank on another
// host is reached in the same way as one that the host started.
package wire
