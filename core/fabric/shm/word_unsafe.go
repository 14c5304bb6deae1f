package shm

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Word32 returns the 32-bit word at an offset of shared memory. It panics if the offset
// is out of bounds or unaligned; callers pass constants or checked offsets.
func Word32(memory []byte, offset int) *atomic.Uint32 {
	return (*atomic.Uint32)(word(memory, offset, 4))
}

// Word64 is Word32 for 64 bits.
func Word64(memory []byte, offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(word(memory, offset, 8))
}

func word(memory []byte, offset, size int) unsafe.Pointer {
	p := unsafe.Pointer(&memory[offset : offset+size][0])
	if uintptr(p)%uintptr(size) != 0 {
		panic(fmt.Sprintf("word at offset %d is not aligned to %d bytes", offset, size))
	}
	return p
}

// touch writes to every page of memory, which begins at a page, and changes no byte.
func touch(memory []byte) {
	base := unsafe.Pointer(unsafe.SliceData(memory))
	for i := 0; i < len(memory); i += os.Getpagesize() {
		(*atomic.Uint32)(unsafe.Add(base, i)).Add(0)
	}
}

const (
	futexWait = 0 // FUTEX_WAIT, shared between processes
	futexWake = 1 // FUTEX_WAKE
)

// FutexWait parks the thread until FutexWake is called on the same word or timeout has
// passed. It returns at once if the word does not hold value, and may return early for
// no reason. The word may be shared between processes.
func FutexWait(w *atomic.Uint32, value uint32, timeout time.Duration) {
	limit := unix.NsecToTimespec(timeout.Nanoseconds())
	// After any error (EAGAIN, EINTR, ETIMEDOUT) the caller looks at the word again.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWait, uintptr(value),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
}

// FutexWake wakes every thread that is parked on the word. It does not block.
func FutexWake(w *atomic.Uint32) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake,
		1<<30, 0, 0, 0)
}
