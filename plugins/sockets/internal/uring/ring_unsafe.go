package uring

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's structures have these sizes.
var (
	_ [64]byte  = [unsafe.Sizeof(sqe{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(cqe{})]byte{}
	_ [120]byte = [unsafe.Sizeof(params{})]byte{}
	_ [24]byte  = [unsafe.Sizeof(getEventsArg{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(buffer{})]byte{}
	_ [40]byte  = [unsafe.Sizeof(bufferRegistration{})]byte{}
	_ [32]byte  = [unsafe.Sizeof(resourceRegistration{})]byte{}
	_ [32]byte  = [unsafe.Sizeof(resourceUpdate{})]byte{}
	_ [64]byte  = [unsafe.Sizeof(syncCancel{})]byte{}
)

// setup calls io_uring_setup.
func setup(entries uint32, p *params) (fd int, err error) {
	n, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries),
		uintptr(unsafe.Pointer(p)), 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// register calls io_uring_register.
func (r *Ring) register(opcode uint, argument unsafe.Pointer, count int) error {
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), uintptr(opcode),
		uintptr(argument), uintptr(count), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// call calls io_uring_enter. With wait of 0 it does not block.
func (r *Ring) call(submit, wait uint32, timeout time.Duration) (n int, errno unix.Errno) {
	var a uintptr
	if wait == 0 {
		a, _, errno = unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit), 0,
			enterGetEvents, 0, 0)
	} else {
		r.timeout = unix.NsecToTimespec(int64(max(timeout, 0)))
		r.argument.ts = uint64(uintptr(unsafe.Pointer(&r.timeout)))
		a, _, errno = unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit),
			uintptr(wait), enterGetEvents|enterExtArg,
			uintptr(unsafe.Pointer(&r.argument)), unsafe.Sizeof(r.argument))
	}
	if errno != 0 {
		return 0, errno
	}
	return int(a), 0
}

// probe returns an error if the kernel does not have an operation.
func (r *Ring) probe(operations ...uint8) error {
	var p probe
	if err := r.register(registerProbe, unsafe.Pointer(&p), probeOps); err != nil {
		return refusal("io_uring_register probe", err)
	}
	for _, op := range operations {
		if p.ops[op].flags&probeSupported == 0 {
			return refusal(fmt.Sprintf("io_uring operation %d", op), unix.EOPNOTSUPP)
		}
	}
	return nil
}

// mapMemory maps the queues.
func (r *Ring) mapMemory(p *params) (err error) {
	size := int(p.cq.cqes) + int(p.cqEntries)*int(unsafe.Sizeof(cqe{}))
	if r.memory, err = unix.Mmap(r.fd, offSQRing, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return refusal("mmap of io_uring's queues", err)
	}
	if r.table, err = unix.Mmap(r.fd, offSQEs, int(p.sqEntries)*int(unsafe.Sizeof(sqe{})),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return refusal("mmap of io_uring's submissions", err)
	}
	word := func(offset uint32) *atomic.Uint32 {
		return (*atomic.Uint32)(unsafe.Pointer(&r.memory[offset]))
	}
	r.sqHead, r.sqTail, r.sqFlags = word(p.sq.head), word(p.sq.tail), word(p.sq.flags)
	r.cqHead, r.cqTail = word(p.cq.head), word(p.cq.tail)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&r.memory[p.cq.cqes])), p.cqEntries)
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&r.table[0])), p.sqEntries)
	r.tail, r.submitted = r.sqTail.Load(), r.sqTail.Load()
	r.head, r.ready = r.cqHead.Load(), r.cqHead.Load()
	return nil
}

func (r *Ring) registerFiles(count int) error {
	a := resourceRegistration{count: uint32(count), flags: filesSparse}
	return r.register(registerFiles2, unsafe.Pointer(&a), int(unsafe.Sizeof(a)))
}

// SetFile puts a descriptor into the table of files, or -1 to remove one. Operations in progress
// keep the file that they began with.
func (r *Ring) SetFile(file, fd int) error {
	r.file = int32(fd) // on the heap, where it does not move
	a := resourceUpdate{offset: uint32(file), data: uint64(uintptr(unsafe.Pointer(&r.file))),
		count: 1}
	if err := r.register(registerFilesUpdate2, unsafe.Pointer(&a),
		int(unsafe.Sizeof(a))); err != nil {
		return fmt.Errorf("io_uring_register file: %w", err)
	}
	return nil
}

// cancel cancels the operations that flags and file select, and waits briefly for them to end. It
// returns nil if there are none.
func (r *Ring) cancel(flags uint32, file int) error {
	a := syncCancel{fd: int32(file), flags: flags | cancelAll,
		timeout: unix.NsecToTimespec(int64(10 * time.Millisecond))}
	switch err := r.register(registerSyncCancel, unsafe.Pointer(&a), 1); err {
	case unix.ENOENT, unix.ETIME, unix.EINTR:
		return nil
	default:
		return err
	}
}

// address returns the address of memory that the garbage collector does not own.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

// newEntries maps the page of a ring of buffers.
func newEntries(count int) (page []byte, entries []buffer, tail *atomic.Uint32, err error) {
	page, err = unix.Mmap(-1, 0, count*int(unsafe.Sizeof(buffer{})), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("mmap: %w", err)
	}
	entries = unsafe.Slice((*buffer)(unsafe.Pointer(&page[0])), count)
	return page, entries, (*atomic.Uint32)(unsafe.Pointer(&page[12])), nil
}

// registerBuffers registers or unregisters a ring of buffers.
func (r *Ring) registerBuffers(opcode uint, page []byte, a bufferRegistration) error {
	if page != nil {
		a.addr = address(page)
	}
	return r.register(opcode, unsafe.Pointer(&a), 1)
}
