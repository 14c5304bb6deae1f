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

// Transmitter calls sendmsg with arguments that are allocated once.
type Transmitter struct {
	message unix.Msghdr
	vector  struct{ offset, size uint64 } // a struct iovec whose base is an offset in the dmabuf
	control struct {
		header unix.Cmsghdr
		dmabuf uint32
		_      uint32 // the alignment of control messages
	}
}

// NewTransmitter returns a Transmitter.
func NewTransmitter() *Transmitter {
	t := &Transmitter{}
	t.control.header = unix.Cmsghdr{Level: unix.SOL_SOCKET, Type: unix.SCM_DEVMEM_DMABUF}
	t.control.header.SetLen(unix.CmsgLen(int(unsafe.Sizeof(t.control.dmabuf))))
	t.message.Iov = (*unix.Iovec)(unsafe.Pointer(&t.vector))
	t.message.SetIovlen(1)
	t.message.Control = (*byte)(unsafe.Pointer(&t.control))
	t.message.SetControllen(int(unsafe.Sizeof(t.control)))
	return t
}

// Send sends size bytes from an offset in a dmabuf of [Binding.BindTX] and returns how many the
// socket took: 0 if it has no room. The socket has SO_ZEROCOPY; the bytes must not change until the
// kernel reports in its error queue that the send is complete. Send does not block or allocate.
func (t *Transmitter) Send(socket int, dmabuf uint32, offset uint64, size int) (int, error) {
	t.vector.offset, t.vector.size = offset, uint64(size)
	t.control.dmabuf = dmabuf
	n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(socket),
		uintptr(unsafe.Pointer(&t.message)),
		unix.MSG_ZEROCOPY|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EAGAIN, unix.EINTR:
		return 0, nil
	}
	return 0, errno
}
