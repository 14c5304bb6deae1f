package sock

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxVectors is the most stretches of memory in one system call: 1 MiB of pages.
const MaxVectors = 256

// Vectors is the reusable memory list of sendmsg and recvmsg.
type Vectors struct {
	header unix.Msghdr
	list   [MaxVectors]unix.Iovec
	count  int
	size   int
}

// Reset empties the list.
func (v *Vectors) Reset() { v.count, v.size = 0, 0 }

// Full reports whether the list has no room.
func (v *Vectors) Full() bool { return v.count == MaxVectors }

// Len returns how many stretches of memory the list has.
func (v *Vectors) Len() int { return v.count }

// Add appends memory, which must not be empty.
func (v *Vectors) Add(b []byte) {
	to := &v.list[v.count]
	to.Base = &b[0]
	to.SetLen(len(b))
	v.count++
	v.size += len(b)
}

// Send sends the listed memory and returns how many bytes went: 0 if the socket has no room.
func (v *Vectors) Send(fd int) (int, error) { return v.send(fd, 0) }

// send sends the listed memory and returns how many bytes went. It returns 0 if the
// socket has no room, and unix.ENOBUFS if the kernel has no memory for zero-copy.
func (v *Vectors) send(fd, flags int) (int, error) {
	v.header.Iov = &v.list[0]
	v.header.SetIovlen(v.count)
	n, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&v.header)),
		uintptr(flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
	return sent(int(n), errno)
}

// Receive fills the listed memory and returns the number of bytes received: 0 if none waits.
func (v *Vectors) Receive(fd int) (int, error) {
	v.header.Iov = &v.list[0]
	v.header.SetIovlen(v.count)
	n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&v.header)), unix.MSG_DONTWAIT)
	return received(int(n), errno)
}

// SendBytes sends bytes and returns how many went: 0 if the socket has no room.
func SendBytes(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return sent(int(n), errno)
}

// ReceiveBytes fills b and returns the number of bytes received: 0 if none waits. It returns
// [ErrClosed] at the end of the stream.
func ReceiveBytes(fd int, b []byte) (int, error) { return receiveFlags(fd, b, 0) }

func receiveFlags(fd int, b []byte, flags int) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		uintptr(flags|unix.MSG_DONTWAIT), 0, 0)
	return received(int(n), errno)
}

func sent(n int, errno unix.Errno) (int, error) {
	switch errno {
	case 0:
		return n, nil
	case unix.EAGAIN, unix.EINTR:
		return 0, nil
	default:
		return 0, errno
	}
}

func received(n int, errno unix.Errno) (int, error) {
	switch {
	case errno == 0 && n == 0:
		return 0, ErrClosed
	case errno == 0:
		return n, nil
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, nil
	case errno == unix.EFAULT: // the kernel cannot read the bytes itself
		return 0, ErrInDmabuf
	default:
		return 0, errno
	}
}

// Unacknowledged returns how many bytes sent on a socket the peer has not acknowledged;
// see SIOCOUTQ in tcp(7).
func Unacknowledged(fd int) int {
	var n int32
	if _, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCOUTQ,
		uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0
	}
	return int(n)
}

// Ready fills events from an epoll descriptor without waiting and returns how many
// there are.
func Ready(fd int, events []unix.EpollEvent) int {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// readable reports whether a descriptor is readable.
func readable(fd *unix.PollFd) bool {
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(fd)), 1,
		uintptr(unsafe.Pointer(&noTime)), 0, 0, 0)
	return errno == 0 && n > 0
}

var noTime unix.Timespec

// zeroCopyNotice completes the zero-copy sends numbered first to last, both included.
// copied reports that the kernel copied the bytes after all. See
// Documentation/networking/msg_zerocopy.rst.
type zeroCopyNotice struct {
	first, last uint32
	copied      bool
}

// Constants of linux/errqueue.h.
const (
	originZeroCopy = 5
	codeCopied     = 1
)

// noticeReader reads a socket's error queue.
type noticeReader struct {
	header  unix.Msghdr
	control [128]byte
}

// next returns the next notice of a socket; ok is false if there is none.
func (r *noticeReader) next(fd int) (notice zeroCopyNotice, ok bool) {
	r.header = unix.Msghdr{Control: &r.control[0]}
	r.header.SetControllen(len(r.control))
	_, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&r.header)), unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if errno != 0 || int(r.header.Controllen) <
		unix.CmsgLen(int(unsafe.Sizeof(unix.SockExtendedErr{}))) {
		return notice, false
	}
	e := (*unix.SockExtendedErr)(unsafe.Pointer(&r.control[unix.CmsgLen(0)]))
	if e.Origin != originZeroCopy || e.Errno != 0 {
		return notice, false
	}
	return zeroCopyNotice{first: e.Info, last: e.Data, copied: e.Code&codeCopied != 0}, true
}
