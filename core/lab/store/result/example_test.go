package result_test

import (
	"fmt"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// Read a result, of this or an older version, and print what it says and whether it may be used.
func Example() {
	r, err := result.Read(
		"../../../../results/v0.1.0/amd-epyc-2core-vm/shm-kv-20261121T041410Z-c19e0ca7.json.gz")
	if err != nil {
		fmt.Println(err)
		return
	}
	throughput := r.Summary[result.Throughput]
	fmt.Println(r.Config.Transport, r.Config.Profile, "with", r.Config.InFlight, "in flight")
	fmt.Println(format.Value(throughput), "in", throughput.N, "repeats")
	for _, check := range r.Checks {
		if !check.OK && check.Severity == result.Error {
			fmt.Println("do not use it:", check.Message)
		}
	}
	// Output:
	// shm kv with 32 in flight
	// 8.43 M op/s in 10 repeats
}
