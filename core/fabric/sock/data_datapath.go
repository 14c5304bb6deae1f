package sock

import (
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
)

const (
	// MaxCall is the most bytes of one system call, which bounds how long it keeps the
	// thread.
	MaxCall = 1 << 20
	// minZeroCopy is the size from which MSG_ZEROCOPY can pay.
	minZeroCopy = 16 << 10
)

// Data is a data socket and the results of its last calls. One thread makes the calls.
type Data struct {
	FD       int
	ZeroCopy bool
	Full     bool   // the last send found no room
	NoMemory bool   // the last send failed with ENOBUFS: no memory for zero-copy
	Sends    uint32 // zero-copy sends
	Notices  uint32 // zero-copy sends that the kernel has completed
}

// Counts counts system calls on data sockets, by kind.
type Counts [CountKinds]uint64

// Kinds of [Counts].
const (
	Sends = iota
	SendNS
	Receives
	ReceiveNS
	Again
	NoBuffers
	ZeroCopySends
	ZeroCopyCopied
	ZeroCopyBytes
	PlainBytes // sent without zero-copy
	Others     // calls that move no bytes, retries, and the sleep of a helper
	CountKinds
)

// Syscalls makes the system calls of one thread. Its memory is made once.
type Syscalls struct {
	Vectors Vectors
	Counts  *Counts
	reader  noticeReader
}

// Send sends first and then second, either of which may be empty, and returns how many
// bytes the socket took: 0 if it has no room.
func (k *Syscalls) Send(d *Data, first, second []byte) (int, error) {
	v := &k.Vectors
	v.Reset()
	if len(first) > 0 {
		v.Add(first[:min(len(first), MaxCall)])
	}
	if rest := min(len(second), MaxCall-v.size); rest > 0 {
		v.Add(second[:rest])
	}
	flags := 0
	if d.ZeroCopy && v.size >= minZeroCopy {
		flags = unix.MSG_ZEROCOPY
	}
	begin := clock.Now()
	n, err := v.send(d.FD, flags)
	d.NoMemory = err == unix.ENOBUFS
	if d.NoMemory {
		k.Counts[NoBuffers]++
		if k.ReadNotices(d); d.Notices == d.Sends { // no send is pending that would free memory
			flags = 0
			n, err = v.send(d.FD, 0)
			k.Counts[Others]++
		}
		if err == unix.ENOBUFS {
			err = nil
		}
	}
	return k.countSend(d, begin, n, err, flags != 0)
}

// DeviceSender makes zero-copy sends from a dmabuf; see sendmsg with SCM_DEVMEM_DMABUF in the
// kernel's Documentation/networking/devmem.rst. Send returns 0 if the socket has no room.
type DeviceSender interface {
	Send(socket int, dmabuf uint32, offset uint64, size int) (int, error)
}

// SendDevice sends size bytes from an offset in a dmabuf and returns how many bytes the socket
// took: 0 if it has no room.
func (k *Syscalls) SendDevice(d *Data, from DeviceSender, dmabuf uint32, offset uint64,
	size int) (int, error) {
	begin := clock.Now()
	n, err := from.Send(d.FD, dmabuf, offset, min(size, MaxCall))
	if d.NoMemory = err == unix.ENOBUFS; d.NoMemory {
		k.Counts[NoBuffers]++
		k.ReadNotices(d)
		err = nil
	}
	return k.countSend(d, begin, n, err, true)
}

// countSend counts a send that began at a time of [clock.Now] and returns its result.
func (k *Syscalls) countSend(d *Data, begin int64, n int, err error, zeroCopy bool) (int, error) {
	k.Counts[SendNS] += uint64(clock.Now() - begin)
	k.Counts[Sends]++
	if d.Full = n == 0; d.Full {
		if !d.NoMemory {
			k.Counts[Again]++
		}
		return 0, err
	}
	if zeroCopy {
		d.Sends++
		k.Counts[ZeroCopySends]++
		k.Counts[ZeroCopyBytes] += uint64(n)
	} else {
		k.Counts[PlainBytes] += uint64(n)
	}
	return n, nil
}

// CountReceive counts a call of recv that began at a time of [clock.Now].
func (k *Syscalls) CountReceive(begin int64) {
	k.Counts[ReceiveNS] += uint64(clock.Now() - begin)
	k.Counts[Receives]++
}

// ReadNotices reads which zero-copy sends the kernel has completed. TCP completes them
// in order.
func (k *Syscalls) ReadNotices(d *Data) {
	for {
		k.Counts[Others]++
		n, ok := k.reader.next(d.FD)
		if !ok {
			return
		}
		d.Notices = n.last + 1
		if n.copied {
			k.Counts[ZeroCopyCopied] += uint64(n.last - n.first + 1)
		}
	}
}
