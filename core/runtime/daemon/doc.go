// Package daemon is the measured daemon: one thread that answers the requests of clients and of
// other ranks from its part of the key-value store, or as an echo or a sink.
//
// An iteration of its loop, in daemon_datapath.go, has the phases poll, serve, scan, delegate and
// flush. The phase scan belongs to mesh-proxied (proxy.go: links to the clients of the rank), and
// delegate to daemons that delegate (delegation.go: requests for keys of another daemon of the
// rank). storage.go delays values, device.go verifies those that stay in device memory, and
// tracer.go stamps the calls that clients take apart.
package daemon
