package conn

import (
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/queue"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

// lane is a data socket with the chunks that it is to send and to receive.
type lane struct {
	sock.Data
	index    int
	tasks    queue.Queue[sendTask] // up to laneTasks
	expected queue.Queue[receiveTask]
	// bytes since the beginning: those of all tasks that it was given, and what is booked
	given, sent, received uint64
}

// sendTask is a chunk that a lane is to send.
type sendTask struct {
	request *sendRequest
	end     uint64 // position in the stream
	left    int    // bytes that are not sent
}

// receiveTask is a chunk that the peer has announced on a lane.
type receiveTask struct {
	number uint64 // of the receive
	end    int    // offset in the receive
	left   int    // bytes that have not come
	last   int    // index of its last fragment; -1 for none
}

// driver makes the system calls of a connection's lanes: [polling] on the thread that polls, and
// [helpers] on threads of their own.
type driver interface {
	// send sends what the sockets take of the tasks, or hands them to threads and books what these
	// have sent. It returns the bytes that went.
	send() (bytes int, err error)
	// receive receives what has come of the expected chunks, or hands them to threads and books
	// what these have received. It returns the error of a thread.
	receive() error
	// lends reports whether send reads a payload before it returns.
	lends() bool
	// readNotices reads which zero-copy sends of a lane the kernel has completed.
	readNotices(l *lane)
	// hasWork reports whether send or receive would get on without an event of awaited.
	hasWork() bool
	// awaited returns the events of poll(2) that the polling thread waits for on a lane.
	awaited(l *lane) int16
	// moving returns the reasons to which time goes while a lane has bytes to send and room for
	// them, and while bytes come; 0 for none.
	moving() (sending, receiving stallReason)
	// count adds what the threads have counted since the last time to the counters, and returns
	// how many threads there are.
	count() (threads int)
	// stop ends the threads and reports whether all have ended; with wait it waits for that.
	stop(wait bool) bool
}

// polling is the [driver] on the thread that polls.
type polling struct {
	conn     *Conn
	syscalls sock.Syscalls
}

// lends implements [driver]. With zero-copy the kernel reads the payload later.
func (d *polling) lends() bool {
	return d.conn.control.fd >= 0 && !d.conn.zeroCopy
}

func (*polling) hasWork() bool                            { return false }
func (*polling) moving() (sending, receiving stallReason) { return 0, reasonData }
func (*polling) count() (threads int)                     { return 0 }
func (*polling) stop(bool) bool                           { return true }

// send sends one task of each lane.
func (d *polling) send() (bytes int, err error) {
	for i := range d.conn.lanes {
		l := &d.conn.lanes[i]
		if l.tasks.Empty() {
			continue
		}
		n, err := d.sendOn(l)
		if err != nil {
			return bytes, err
		}
		d.conn.Out.bookSent(l, n)
		bytes += n
	}
	return bytes, nil
}

// sendOn sends what a lane's socket takes of its oldest task, up to where the stream goes on in
// other memory.
func (d *polling) sendOn(l *lane) (int, error) {
	out, t := &d.conn.Out, l.tasks.Head()
	from := t.end - uint64(t.left)
	span, size := out.device.at(from, t.left)
	if span == nil {
		first, second := out.sourceOf(t.request, from, from+uint64(size))
		return d.syscalls.Send(&l.Data, first, second)
	}
	n, err := d.syscalls.SendDevice(&l.Data, out.device.sender, span.dmabuf,
		span.offset+from-span.position, size)
	switch err { // of the binding, of the route, of the offset
	case unix.EINVAL, unix.ENODEV, unix.EFAULT:
		err = transport.Unavailable("mode devmem: sending from a dmabuf: %w", err)
	}
	return n, err
}

// maxReceived bounds what one call of polling.receive takes. What has come is then unpacked while
// it is in the caches, and its pages are used again.
const maxReceived = 512 << 10

// receive receives for the oldest requests first.
func (d *polling) receive() error {
	empty := 0 // set of lanes that have nothing
	for received := 0; received < maxReceived; {
		l := d.oldest(empty)
		if l == nil {
			break
		}
		n, err := d.receiveOn(l)
		if err != nil {
			return err
		}
		if n == 0 {
			empty |= 1 << l.index
		}
		received += n
	}
	return nil
}

// oldest returns the lane with the oldest chunk for which there are pages, without the lanes of a
// set; nil for none.
func (d *polling) oldest(without int) (best *lane) {
	oldest := d.conn.In.reserved
	for i := range d.conn.lanes {
		l := &d.conn.lanes[i]
		if without&(1<<i) != 0 || l.expected.Empty() {
			continue
		}
		if number := l.expected.Head().number; number < oldest {
			best, oldest = l, number
		}
	}
	return best
}

// receiveOn receives what has come of a lane's oldest chunk. The first bytes fill up the page of
// the chunk's last fragment; the others become new fragments.
func (d *polling) receiveOn(l *lane) (n int, err error) {
	in, t := &d.conn.In, l.expected.Head()
	r := in.requests.At(t.number)
	var last bounce.Fragment
	if t.last >= 0 {
		last = r.fragments[t.last]
	}
	have := len(r.fragments)
	begin := clock.Now()
	grown, count, err := in.memory.Receive(l.FD, t.left, last,
		r.fragments[have:cap(r.fragments)])
	d.syscalls.CountReceive(begin)
	if err != nil || grown == 0 && count == 0 {
		return 0, err
	}
	if n = int(grown); n > 0 {
		r.fragments[t.last].Length += grown
	}
	r.fragments = r.fragments[:have+count]
	for i := range r.fragments[have:] {
		f := &r.fragments[have+i]
		f.Destination = uint32(t.end - t.left + n)
		n += int(f.Length)
	}
	if count > 0 {
		t.last = have + count - 1
	}
	in.bookReceived(l, n)
	return n, nil
}

func (d *polling) readNotices(l *lane) { d.syscalls.ReadNotices(&l.Data) }

func (d *polling) awaited(l *lane) (events int16) {
	if l.Notices != l.Sends {
		d.readNotices(l)
	}
	if !l.expected.Empty() {
		events |= unix.POLLIN
	}
	if !l.tasks.Empty() {
		events |= unix.POLLOUT
	}
	return events
}
