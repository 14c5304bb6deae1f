package set_test

import (
	"fmt"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
)

// Print the throughput of each transport at one load of a sweep.
func Example() {
	s, err := set.Load("../../../../results/v0.8.0/amd-epyc-2core-vm")
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
	// copyrpc: 7.30 K op/s over 10 repeats
	// erpc: 5.43 K op/s over 10 repeats
	// grpc: 2.09 K op/s over 10 repeats
	// ofi: 8.98 K op/s over 10 repeats
	// shm: 17.5 K op/s over 10 repeats
	// sockets: 9.30 K op/s over 10 repeats
	// tcpx: 7.39 K op/s over 10 repeats
	// ucxam: 8.54 K op/s over 10 repeats
}
