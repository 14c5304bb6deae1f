package transporttest

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"transportbench/core/base/machine"
)

// Processors returns the first two processors that this process may use, for benchmarks that
// compare transports between two threads. It skips the benchmark if there is only one.
func Processors(b *testing.B) (cpus [2]int) {
	b.Helper()
	allowed, err := machine.AllowedCPUs()
	if err != nil {
		b.Fatal(err)
	}
	if len(allowed) < len(cpus) {
		b.Skip("needs two processors, and this process has one")
	}
	return [2]int(allowed)
}

// Pin locks the calling goroutine to its thread for good and the thread to a processor, unless cpu
// is negative.
func Pin(cpu int) error {
	runtime.LockOSThread() // never unlocked
	if cpu < 0 {
		return nil
	}
	return machine.Pin(cpu)
}

// Rounds returns the number of repetitions of a benchmark: the value of an environment variable, or
// if it is not set, standard, or 1 in short mode, which only shows that the benchmark works.
func Rounds(variable string, standard int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	if testing.Short() {
		return 1
	}
	return standard
}
