// Package rdmaperf measures what an RDMA device does by itself, with nothing on top:
// latency, rate and bandwidth of its operations between two queue pairs. What is
// measured, and how, is as in perftest (ib_write_lat and its like), so that the two can
// be compared.
//
// Two threads of one process have a side each; each opens the device.
package rdmaperf
