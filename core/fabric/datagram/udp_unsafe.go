package datagram

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// messageHeader is struct mmsghdr of recvmmsg(2) and sendmmsg(2).
type messageHeader struct {
	header unix.Msghdr
	length uint32
	_      [4]byte
}

// The functions below make raw system calls, which do not tell Go's scheduler: the socket is
// non-blocking, so none of them blocks, and the scheduler's part would cost more than the rest of a
// port.

func sendMessages(fd int, headers []messageHeader) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(headers))), uintptr(len(headers)), 0, 0, 0)
	return int(r), errno
}

func sendMessage(fd int, header *messageHeader) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&header.header)), 0)
	return errno
}

func receiveMessages(fd int, headers []messageHeader) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(headers))), uintptr(len(headers)), 0, 0, 0)
	return int(r), errno
}

// receiveMessage receives one message. Unlike receiveMessages it does not look for a second.
func receiveMessage(fd int, header *messageHeader) unix.Errno {
	r, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&header.header)), 0)
	header.length = uint32(r)
	return errno
}

// receiveFrom receives one datagram and returns its length, even if it is longer than the buffer.
// It sets from to the sender's address unless from is nil.
func receiveFrom(fd int, buffer []byte, from *sockaddr) (length int, errno unix.Errno) {
	var size *uint32
	if from != nil {
		room := uint32(len(from))
		size = &room
	}
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(buffer))), uintptr(len(buffer)),
		unix.MSG_TRUNC, uintptr(unsafe.Pointer(from)), uintptr(unsafe.Pointer(size)))
	return int(r), errno
}

// sendTo sends to an address, or to the connected remote if to is nil.
func sendTo(fd int, data []byte, to *sockaddr, length uint32) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), 0,
		uintptr(unsafe.Pointer(to)), uintptr(length))
	return errno
}

// connect connects a socket, or dissolves its connection if to has the family AF_UNSPEC.
func connect(fd int, to *sockaddr, length uint32) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(to)),
		uintptr(length))
	return errno
}

// coalesce makes the kernel return several datagrams as one message.
func coalesce(fd int) unix.Errno {
	on := int32(1)
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.IPPROTO_UDP,
		unix.UDP_GRO, uintptr(unsafe.Pointer(&on)), unsafe.Sizeof(on), 0)
	return errno
}

// Indices of the values of SO_MEMINFO: linux/sock_diag.h.
const (
	memoryInfoDrops = 8
	memoryInfoCount = 9
)

// dropsOf returns how many packets the kernel has dropped because the socket's receive buffer was
// full, modulo 2^32. It is the counter that SO_RXQ_OVFL attaches to the packet after the gap, but
// available at any time. It returns false if the kernel does not have it.
func dropsOf(fd int) (uint32, bool) {
	var values [memoryInfoCount]uint32
	size := uint32(unsafe.Sizeof(values))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET,
		unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&values)), uintptr(unsafe.Pointer(&size)), 0)
	return values[memoryInfoDrops], errno == 0 && size == uint32(unsafe.Sizeof(values))
}
