package transporttest

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Processors are the first two that this process may use, for benchmarks that run two
// sides in turn with others. It skips where there is one only.
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
		b.Skip("two processors are needed, and there is one")
	}
	return cpus
}

// Pin keeps the calling goroutine on its thread for good, and that on a processor, or on
// any where cpu is negative.
func Pin(cpu int) error {
	runtime.LockOSThread() // and not unlocked: the thread stays where it is
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// Rounds is how often a benchmark repeats its measurements: what an environment variable
// says, or else standard.
func Rounds(variable string, standard int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	return standard
}
