// Package perftest describes the programs of perftest, the benchmarks of RDMA devices, as
// references of a transport.
package perftest
