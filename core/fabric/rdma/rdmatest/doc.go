// Package rdmatest is the conformance suite of core/fabric/rdma: what every device must do.
// Each test opens the device twice and lets the two sides talk.
package rdmatest
