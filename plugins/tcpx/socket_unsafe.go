package tcpx

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errSocketClosed: the far side of a socket is gone, and there are no more bytes.
var errSocketClosed = errors.New("the socket was closed by the peer")

// maxVectors is the most stretches of memory in one system call, and so 1 MiB of
// pages: what bounds how long one keeps the thread.
const maxVectors = 256

// vectors is the argument of sendmsg and recvmsg, made once.
//
// The calls below are raw: the sockets are nonblocking, so that a call takes as long
// as its copy does, and Go's scheduler need not hear of it.
type vectors struct {
	header unix.Msghdr
	list   [maxVectors]unix.Iovec
	count  int
	size   int
}

func (v *vectors) reset() { v.count, v.size = 0, 0 }

func (v *vectors) full() bool { return v.count == maxVectors }

// add appends memory, which must not be empty.
func (v *vectors) add(b []byte) {
	to := &v.list[v.count]
	to.Base = &b[0]
	to.SetLen(len(b))
	v.count++
	v.size += len(b)
}

// send sends what was added and returns how much went: 0 where the socket has no
// room, with unix.ENOBUFS where it is memory for zero-copy that lacks.
func (v *vectors) send(fd, flags int) (int, error) {
	v.header.Iov = &v.list[0]
	v.header.SetIovlen(v.count)
	n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.header)),
		uintptr(flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
	return sent(int(n), errno)
}

// receive fills what was added and returns how much came.
func (v *vectors) receive(fd int) (int, error) {
	v.header.Iov = &v.list[0]
	v.header.SetIovlen(v.count)
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.header)), unix.MSG_DONTWAIT)
	return received(int(n), errno)
}

// sendBytes is send of one stretch of memory.
func sendBytes(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return sent(int(n), errno)
}

// receiveBytes is receive into one stretch of memory.
func receiveBytes(fd int, b []byte) (int, error) { return receiveFlags(fd, b, 0) }

func receiveFlags(fd int, b []byte, flags int) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
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
		return 0, errSocketClosed
	case errno == 0:
		return n, nil
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, nil
	case errno == unix.EFAULT: // what the kernel says where it cannot read the bytes itself
		return 0, errInDmabuf
	default:
		return 0, errno
	}
}

// unacknowledged returns how many bytes of a socket the far side has yet to
// acknowledge; see tcp(7), SIOCOUTQ.
func unacknowledged(fd int) int {
	var n int32
	if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCOUTQ, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0
	}
	return int(n)
}

// readiness asks an epoll descriptor, without waiting.
func readiness(fd int, events []unix.EpollEvent) int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// zeroCopyNotice is one completion of zero-copy sends: their numbers, both ends
// included, and whether the kernel has copied after all. See
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

// next returns the next notice of a socket, if there is one.
func (r *noticeReader) next(fd int) (notice zeroCopyNotice, ok bool) {
	r.header = unix.Msghdr{Control: &r.control[0]}
	r.header.SetControllen(len(r.control))
	_, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.header)), unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if errno != 0 || int(r.header.Controllen) < unix.CmsgLen(int(unsafe.Sizeof(unix.SockExtendedErr{}))) {
		return notice, false
	}
	e := (*unix.SockExtendedErr)(unsafe.Pointer(&r.control[unix.CmsgLen(0)]))
	if e.Origin != originZeroCopy || e.Errno != 0 {
		return notice, false
	}
	return zeroCopyNotice{first: e.Info, last: e.Data, copied: e.Code&codeCopied != 0}, true
}
