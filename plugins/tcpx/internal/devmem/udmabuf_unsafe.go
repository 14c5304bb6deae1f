package devmem

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// exporter is the device that makes a dmabuf from a memfd.
const exporter = "/dev/udmabuf"

// From include/uapi/linux/udmabuf.h and dma-buf.h.
const (
	udmabufCreate  = 0x40187542 // UDMABUF_CREATE: _IOW('u', 0x42, struct udmabuf_create)
	udmabufCloexec = 1          // UDMABUF_FLAGS_CLOEXEC
	dmabufSync     = 0x40086200 // DMA_BUF_IOCTL_SYNC: _IOW('b', 0, struct dma_buf_sync)
	syncRead       = 1          // DMA_BUF_SYNC_READ; DMA_BUF_SYNC_START is 0
)

// create is struct udmabuf_create.
type create struct {
	memfd  uint32
	flags  uint32
	offset uint64
	size   uint64
}

// udmabuf is host memory as a dmabuf, or a device's with host memory beside it.
type udmabuf struct {
	memfd      int    // -1 if the memory is the device's
	descriptor int    // of the dmabuf, or -1
	memory     []byte // the dmabuf and the extra memory
}

// exportMemory makes a dmabuf of size bytes and maps it, followed by extra bytes of ordinary
// memory.
func exportMemory(size, extra int) (_ *udmabuf, err error) {
	device, err := unix.Open(exporter, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: exporter, Err: err}
	}
	defer unix.Close(device) // nothing was written
	u := &udmabuf{memfd: -1, descriptor: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.close())
		}
	}()
	if u.memfd, err = unix.MemfdCreate("tcpx-devmem",
		unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	if err = unix.Ftruncate(u.memfd, int64(size+extra)); err != nil {
		return nil, fmt.Errorf("memfd of %d bytes: %w", size+extra, err)
	}
	// The exporter requires memory that cannot shrink.
	if _, err = unix.FcntlInt(uintptr(u.memfd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		return nil, fmt.Errorf("sealing the memfd: %w", err)
	}
	request := create{memfd: uint32(u.memfd), flags: udmabufCloexec, size: uint64(size)}
	descriptor, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(device), udmabufCreate,
		uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return nil, fmt.Errorf("%s: UDMABUF_CREATE of %d bytes: %w", exporter, size, errno)
	}
	u.descriptor = int(descriptor)
	if u.memory, err = unix.Mmap(u.memfd, 0, size+extra, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("mapping %d bytes: %w", size+extra, err)
	}
	return u, nil
}

// exportDevice makes a dmabuf of a device's memory.
func exportDevice(o Options) (_ *udmabuf, err error) {
	u := &udmabuf{memfd: -1}
	if u.descriptor, err = o.Export(o.Size, o.Extra); err != nil {
		return nil, err
	}
	if u.memory, err = unix.Mmap(-1, 0, o.Size+o.Extra, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return nil, errors.Join(fmt.Errorf("mapping %d bytes: %w", o.Size+o.Extra, err), u.close())
	}
	return u, nil
}

func (u *udmabuf) sync() error {
	flags := uint64(syncRead)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(u.descriptor), dmabufSync,
		uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return fmt.Errorf("DMA_BUF_IOCTL_SYNC: %w", errno)
	}
	return nil
}

func (u *udmabuf) close() error {
	var errs []error
	if u.memory != nil {
		errs = append(errs, unix.Munmap(u.memory))
	}
	for _, descriptor := range []int{u.descriptor, u.memfd} {
		if descriptor >= 0 {
			errs = append(errs, unix.Close(descriptor))
		}
	}
	return errors.Join(errs...)
}
