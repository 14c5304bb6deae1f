package uring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// forbid lets a system call fail with errno on the calling thread for good.
func forbid(call uint32, errno unix.Errno) error {
	const returnErrno, allow = 0x00050000, 0x7fff0000
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: returnErrno | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: allow},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(program)), 0, 0)
}
