package tcpx

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringUnit is what the size of a ring is a multiple of.
const ringUnit = 64 << 10

// newRing maps size bytes twice in a row, so that what wraps around is contiguous:
// byte i is byte size+i. It takes memory as it is touched.
func newRing(label string, size int) ([]byte, error) {
	fd, err := unix.MemfdCreate(label, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, fmt.Errorf("a ring of %d bytes: ftruncate: %w", size, err)
	}
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(2*size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("a ring of %d bytes: mmap: %w", size, err)
	}
	for half := range 2 {
		if _, err := unix.MmapPtr(fd, 0, unsafe.Add(base, half*size), uintptr(size), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			return nil, errors.Join(fmt.Errorf("a ring of %d bytes: mmap: %w", size, err), unix.MunmapPtr(base, uintptr(2*size)))
		}
	}
	return unsafe.Slice((*byte)(base), 2*size), nil
}

// freeRing gives a ring up, if there is one.
func freeRing(ring []byte) error {
	if ring == nil {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(&ring[0]), uintptr(len(ring)))
}

// aligned says whether memory starts at a page.
func aligned(b []byte) bool {
	return len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%pageSize == 0
}
