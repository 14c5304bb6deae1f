package shm

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The commands of membarrier(2), from linux/membarrier.h.
const (
	membarrierGlobalExpedited         = 1 << 1
	membarrierRegisterGlobalExpedited = 1 << 2
)

// RegisterBarrier makes the threads of this process pass the barriers of other
// processes; see [Barrier].
func RegisterBarrier() error {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierRegisterGlobalExpedited, 0, 0)
	if errno != 0 {
		return fmt.Errorf("membarrier: %w (it needs Linux 4.16 with CONFIG_MEMBARRIER)", errno)
	}
	return nil
}

// Barrier makes every running thread of every registered process pass a full memory
// barrier before it returns. A thread that is about to sleep stores a flag, calls
// Barrier and checks for work once more. The thread that posts work then needs no
// barrier between its store of the work and its load of the flag.
func Barrier() {
	_, _, _ = unix.RawSyscall(unix.SYS_MEMBARRIER, membarrierGlobalExpedited, 0, 0)
}
