package doublemap

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Unit divides the size of every ring.
const Unit = 64 << 10

// New maps size bytes twice in a row, so that what wraps around is contiguous: byte
// i is byte size+i. Pages are allocated when they are touched.
func New(label string, size int) ([]byte, error) {
	fail := func(call string, err error) error {
		return fmt.Errorf("a ring of %d bytes: %s: %w",
			size, call, err)
	}
	fd, err := unix.MemfdCreate(label, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fail("memfd_create", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, fail("ftruncate", err)
	}
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(2*size), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fail("mmap", err)
	}
	for half := range 2 {
		if _, err := unix.MmapPtr(fd, 0, unsafe.Add(base, half*size), uintptr(size),
			unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			return nil, errors.Join(fail("mmap", err), unix.MunmapPtr(base, uintptr(2*size)))
		}
	}
	return unsafe.Slice((*byte)(base), 2*size), nil
}

// Free unmaps what New returned; nil is allowed.
func Free(ring []byte) error {
	if ring == nil {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(&ring[0]), uintptr(len(ring)))
}
