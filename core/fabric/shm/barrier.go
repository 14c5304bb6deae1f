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

// RegisterBarrier makes this process take part in the barriers of others.
func RegisterBarrier() error {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierRegisterGlobalExpedited, 0, 0)
	if errno != 0 {
		return fmt.Errorf("membarrier: %w (it needs Linux 4.16 with CONFIG_MEMBARRIER)", errno)
	}
	return nil
}

// Barrier makes every thread of every registered process pass a full memory barrier
// before it returns. Who goes to sleep calls it between saying so and looking once
// more, so that who wakes it can do without a barrier: it stores, and then loads whether
// anybody sleeps.
func Barrier() {
	_, _, _ = unix.RawSyscall(unix.SYS_MEMBARRIER, membarrierGlobalExpedited, 0, 0)
}
