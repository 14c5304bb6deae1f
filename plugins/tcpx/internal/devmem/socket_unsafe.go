package devmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls here are raw: they never block, and Go's scheduler need not hear of them.

// DontNeed is setsockopt(SO_DEVMEM_DONTNEED), which other than any other option returns
// a number: how many pieces the kernel took back, in order. It does not block or allocate.
func DontNeed(socket int, ranges []TokenRange) (int, error) {
	taken, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(socket), unix.SOL_SOCKET, unix.SO_DEVMEM_DONTNEED,
		uintptr(unsafe.Pointer(unsafe.SliceData(ranges))), uintptr(len(ranges))*unsafe.Sizeof(TokenRange{}), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(taken), nil
}

// Receiver is recvmsg with its arguments made once.
type Receiver struct {
	message unix.Msghdr
	vectors []unix.Iovec
	control []byte
}

// NewReceiver makes one for at most this many buffers and pieces at a time.
func NewReceiver(buffers, pieces int) *Receiver {
	r := &Receiver{vectors: make([]unix.Iovec, buffers), control: make([]byte, pieces*controlSpace)}
	r.message.Iov, r.message.Control = unsafe.SliceData(r.vectors), unsafe.SliceData(r.control)
	return r
}

// Receive takes bytes from a socket without blocking: n of them, at most as many as the
// buffers have room for, in at most so many pieces. Bytes that are in the dmabuf are told of by control, for
// [Control], and others are in the buffers, from the first on. Without control messages
// all of them are. The errno of a socket that has nothing is EAGAIN. Control is valid
// until the next call. It does not allocate.
func (r *Receiver) Receive(socket int, buffers [][]byte, pieces int) (n int, control []byte, err error) {
	for i, b := range buffers {
		r.vectors[i].Base = unsafe.SliceData(b)
		r.vectors[i].SetLen(len(b))
	}
	r.message.SetIovlen(len(buffers))
	r.message.SetControllen(min(pieces*controlSpace, len(r.control)))
	got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(socket), uintptr(unsafe.Pointer(&r.message)), unix.MSG_SOCK_DEVMEM|unix.MSG_DONTWAIT)
	if errno != 0 {
		return 0, nil, errno
	}
	return int(got), r.control[:r.message.Controllen], nil
}
