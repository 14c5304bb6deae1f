package transporttest

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Processors returns the first two processors that this process may use, for benchmarks that compare
// transports between two threads. It skips the benchmark if there is only one.
func Processors(b *testing.B) (cpus [2]int) {
	b.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		b.Fatalf("processors of this process: %v", err)
	}
	n := 0
	for cpu := 0; cpu < 1024 && n < len(cpus); cpu++ {
		if set.IsSet(cpu) {
			cpus[n] = cpu
			n++
		}
	}
	if n < len(cpus) {
		b.Skip("needs two processors, and this process has one")
	}
	return cpus
}

// Pin locks the calling goroutine to its thread for good and the thread to a processor, unless cpu is
// negative.
func Pin(cpu int) error {
	runtime.LockOSThread() // never unlocked
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// Rounds returns the number of repetitions of a benchmark: the value of an environment variable, or
// standard if it is not set.
func Rounds(variable string, standard int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	return standard
}
