package set_test

import (
	"fmt"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
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
			fmt.Printf("%s: %s over %d repeats\n", c.Transport(), format.Value(m),
				len(c.Samples[result.Throughput]))
		}
	}
	// Output:
	// copyrpc: 8.08 K op/s over 10 repeats
	// erpc: 6.43 K op/s over 10 repeats
	// grpc: 2.98 K op/s over 10 repeats
	// ofi: 13.2 K op/s over 10 repeats
	// shm: 25.6 K op/s over 10 repeats
	// sockets: 10.6 K op/s over 10 repeats
	// tcpx: 8.60 K op/s over 10 repeats
	// ucxam: 10.3 K op/s over 10 repeats
}
