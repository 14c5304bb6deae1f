package carrier

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// readDrops returns how many datagrams the kernel dropped because the socket had no room.
func readDrops(fd int) (drops uint64, ok bool) {
	var memory [9]uint32 // SK_MEMINFO_VARS of linux/sock_diag.h; the last is SK_MEMINFO_DROPS
	size := uint32(unsafe.Sizeof(memory))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&memory)), uintptr(unsafe.Pointer(&size)), 0)
	return uint64(memory[8]), errno == 0 && size == uint32(unsafe.Sizeof(memory))
}

// ethtool gives the driver of an interface one of the commands with a struct ethtool_value, and
// returns the value that the driver leaves there.
func ethtool(name string, command, data uint32) (_ uint32, ok bool) {
	var request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // struct ifreq is longer than its pointer
	}
	value := struct{ command, data uint32 }{command, data}
	if copy(request.name[:unix.IFNAMSIZ-1], name) != len(name) {
		return 0, false
	}
	request.data = unsafe.Pointer(&value)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request)))
	return value.data, errno == 0
}
