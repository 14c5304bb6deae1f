// Package rdmatest is the conformance suite of core/fabric/rdma: what any device must
// do, whoever carries the bytes. Each test opens the device twice and lets the two
// sides talk.
package rdmatest
