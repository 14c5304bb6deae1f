package floor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// word returns the word at an offset of b, which callers keep aligned.
func word(b []byte, at int) *uint64 { return (*uint64)(unsafe.Pointer(&b[at : at+8][0])) }

// word32 is word for 32 bits.
func word32(b []byte, at int) *uint32 { return (*uint32)(unsafe.Pointer(&b[at : at+4][0])) }

// sendBytes and receiveBytes are send(2) and recv(2) without waiting, and without a stop at Go's
// scheduler.
func sendBytes(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

func receiveBytes(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)),
		unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}
