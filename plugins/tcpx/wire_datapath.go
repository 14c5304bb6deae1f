package tcpx

import "golang.org/x/sys/unix"

// wire is a data socket, as its calls leave it. Who makes them has it: the comm, or the
// helper that serves the socket.
type wire struct {
	fd       int
	zeroCopy bool
	full     bool   // the socket had no room at the last try
	starved  bool   // the kernel had no memory for zero-copy at the last try
	sends    uint32 // zero-copy sends
	notices  uint32 // of them, those that the kernel is done with
}

// callCounts counts system calls on data sockets, by what they were.
type callCounts [callKinds]uint64

const (
	callSends = iota
	callSendNS
	callReceives
	callReceiveNS
	callUnpackNS // of unpackers
	callAgain
	callNoBuffers
	callZeroSends
	callZeroCopied
	callKinds
)

// caller makes the system calls of a thread.
type caller struct {
	list   vectors
	reader noticeReader
	calls  *callCounts
}

// send sends size bytes of a source, from offset on, as far as the socket takes them.
func (k *caller) send(w *wire, source *vector, offset, size int) (int, error) {
	k.list.gather(source, offset, size)
	flags := 0
	if w.zeroCopy && k.list.size >= leastZeroCopy {
		flags = unix.MSG_ZEROCOPY
	}
	begin := clock()
	n, err := k.list.send(w.fd, flags)
	w.starved = err == unix.ENOBUFS
	if w.starved {
		k.calls[callNoBuffers]++
		if k.readNotices(w); w.notices == w.sends { // nothing under way that would free memory
			flags = 0
			n, err = k.list.send(w.fd, 0)
		}
		if err == unix.ENOBUFS {
			err = nil
		}
	}
	k.calls[callSendNS] += uint64(clock() - begin)
	k.calls[callSends]++
	if w.full = n == 0; w.full {
		if !w.starved {
			k.calls[callAgain]++
		}
		return 0, err
	}
	if flags != 0 {
		w.sends++
		k.calls[callZeroSends]++
	}
	return n, nil
}

// received books a call that received, or tried to, and began at a time.
func (k *caller) received(begin int64) {
	k.calls[callReceiveNS] += uint64(clock() - begin)
	k.calls[callReceives]++
}

// readNotices books the zero-copy sends that the kernel is done with. TCP completes
// them in order.
func (k *caller) readNotices(w *wire) {
	for {
		n, ok := k.reader.next(w.fd)
		if !ok {
			return
		}
		w.notices = n.last + 1
		if n.copied {
			k.calls[callZeroCopied] += uint64(n.last - n.first + 1)
		}
	}
}

// gather lists size bytes of a source, from offset on, as far as one call takes them.
func (v *vectors) gather(source *vector, offset, size int) {
	v.reset()
	size = min(size, mostMoved)
	if first := source[0]; offset < len(first) {
		part := first[offset:min(len(first), offset+size)]
		v.add(part)
		offset, size = len(first), size-len(part)
	}
	if size > 0 {
		offset -= len(source[0])
		v.add(source[1][offset : offset+size])
	}
}
