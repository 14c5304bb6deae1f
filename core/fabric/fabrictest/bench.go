package fabrictest

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// PinTwo returns two functions for benchmarks that compare transports between two threads. Each
// locks the calling goroutine to its thread for good, and the thread to a processor of its own.
// PinTwo skips the benchmark if the process may use only one.
func PinTwo(b *testing.B) (pin [2]func() error) {
	b.Helper()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		b.Fatal(err)
	}
	if allowed.Count() < len(pin) {
		b.Skip("needs two processors, and this process has one")
	}
	for cpu, i := 0, 0; i < len(pin); cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		pin[i] = func() error {
			runtime.LockOSThread() // never unlocked
			var one unix.CPUSet
			one.Set(cpu)
			return unix.SchedSetaffinity(0, &one)
		}
		i++
	}
	return pin
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
