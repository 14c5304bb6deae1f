// Package rdmaperf measures an RDMA device without a transport: latency, rate and bandwidth
// of its operations between two queue pairs. It measures the same way as perftest
// (ib_write_lat and the like), so the two can be compared.
//
// Two threads of one process each open the device and have one queue pair.
package rdmaperf
