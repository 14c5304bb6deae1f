package devmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are raw calls: they never block, so Go's scheduler need not know of them.

// DontNeed calls setsockopt(SO_DEVMEM_DONTNEED), which returns how many pieces the kernel has
// taken back, in order. It does not block or allocate.
func DontNeed(socket int, ranges []TokenRange) (int, error) {
	taken, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(socket), unix.SOL_SOCKET,
		unix.SO_DEVMEM_DONTNEED,
		uintptr(unsafe.Pointer(unsafe.SliceData(ranges))),
		uintptr(len(ranges))*unsafe.Sizeof(TokenRange{}), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(taken), nil
}

// Receiver calls recvmsg with arguments that are allocated once.
type Receiver struct {
	message unix.Msghdr
	vectors []unix.Iovec
	control []byte
}

// NewReceiver returns a Receiver for up to this many buffers and pieces per call.
func NewReceiver(buffers, pieces int) *Receiver {
	r := &Receiver{vectors: make([]unix.Iovec, buffers), control: make([]byte, pieces*controlSpace)}
	r.message.Iov, r.message.Control = unsafe.SliceData(r.vectors), unsafe.SliceData(r.control)
	return r
}

// Receive receives n bytes from a socket: at most the size of the buffers, in at most so many
// pieces. [Control] parses control, which describes the bytes in the dmabuf; the others are in
// the buffers, from the first on. Without control messages all bytes are in the buffers.
// Receive does not block or allocate. If there is nothing to receive, err is EAGAIN. control
// is valid until the next call.
func (r *Receiver) Receive(socket int, buffers [][]byte, pieces int) (n int, control []byte,
	err error) {
	for i, b := range buffers {
		r.vectors[i].Base = unsafe.SliceData(b)
		r.vectors[i].SetLen(len(b))
	}
	r.message.SetIovlen(len(buffers))
	r.message.SetControllen(min(pieces*controlSpace, len(r.control)))
	got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(socket),
		uintptr(unsafe.Pointer(&r.message)), unix.MSG_SOCK_DEVMEM|unix.MSG_DONTWAIT)
	if errno != 0 {
		return 0, nil, errno
	}
	return int(got), r.control[:r.message.Controllen], nil
}
