package set_test

import (
	"fmt"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
)

// Print the throughput of each transport at one load of a sweep.
func Example() {
	s, err := set.Load("../../../../results/v0.6.0/amd-epyc-2core-vm")
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Config["profile"] != "bulk" || c.Status != set.Measured {
			continue
		}
		if m, ok := c.Metric(result.Throughput); ok {
			fmt.Printf("%s: %s over %d repeats\n", c.Transport(), format.Value(m), len(c.Samples[result.Throughput]))
		}
	}
	// Output:
	// copyrpc: 8.18 K op/s over 10 repeats
	// erpc: 6.05 K op/s over 10 repeats
	// grpc: 2.42 K op/s over 10 repeats
	// ofi: 11.4 K op/s over 10 repeats
	// shm: 23.9 K op/s over 10 repeats
	// sockets: 9.35 K op/s over 10 repeats
	// tcpx: 6.93 K op/s over 10 repeats
	// ucxam: 10.9 K op/s over 10 repeats
}
