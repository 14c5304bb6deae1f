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
	queued   int                   // bytes of the tasks that are to be sent
	position uint64                // bytes sent since the beginning
	expected queue.Queue[receiveTask]
}

// sendTask is a chunk that a lane is to send.
type sendTask struct {
	request            *sendRequest
	offset, size, done int
}

// receiveTask is a chunk that the peer has announced on a lane.
type receiveTask struct {
	number             uint64 // of the receive
	offset, size, done int
	last               int // index of its last fragment; -1 for none
}

// driver makes the system calls of a connection's lanes: [polling] on the thread that polls, and
// [helpers] on threads of their own.
type driver interface {
	// handOver gives a part of a request that has become a task of a lane to the lane's thread.
	handOver(l *lane, part []byte)
	// send sends what the sockets take of the tasks, or books what was sent. It reports whether
	// any bytes went.
	send() (any bool, err error)
	// receive receives what has come of the expected chunks, or books what has.
	receive() error
	// readNotices reads which zero-copy sends of a lane the kernel has completed.
	readNotices(l *lane)
	// failure returns the error of a thread.
	failure() error
	// unbooked reports whether a thread has done something that is not booked yet.
	unbooked() bool
	// awaited returns the events of poll(2) that the polling thread waits for on a lane.
	awaited(l *lane) int16
	// threads returns how many threads there are besides the polling thread.
	threads() int
	// stop ends the threads and reports whether all have ended; with wait it waits for that.
	stop(wait bool) bool
	// count adds what the threads have counted since the last time to the counters.
	count()
}

// polling is the [driver] on the thread that polls.
type polling struct {
	conn     *Conn
	syscalls sock.Syscalls
}

func (*polling) handOver(*lane, []byte) {}
func (*polling) failure() error         { return nil }
func (*polling) unbooked() bool         { return false }
func (*polling) threads() int           { return 0 }
func (*polling) stop(bool) bool         { return true }
func (*polling) count()                 {}

func (d *polling) send() (any bool, err error) {
	out := &d.conn.Out
	for i := range d.conn.lanes {
		l := &d.conn.lanes[i]
		for !l.tasks.Empty() && out.sentNow < sock.MaxCall {
			n, err := d.sendOn(l)
			if err != nil {
				return any, err
			}
			if n == 0 {
				break
			}
			any = true
			out.bookSent(l, n)
		}
	}
	return any, nil
}

// sendOn sends what a lane's socket takes of its oldest task, up to where the stream goes on in
// other memory.
func (d *polling) sendOn(l *lane) (int, error) {
	out, t := &d.conn.Out, l.tasks.Head()
	r, from := t.request, t.offset+t.done
	span, size := out.device.at(r.at+uint64(from), t.size-t.done)
	if span == nil {
		first, second := out.sourceOf(r, from, from+size)
		return d.syscalls.Send(&l.Data, first, second)
	}
	n, err := d.syscalls.SendDevice(&l.Data, out.device.sender, span.dmabuf,
		span.offset+r.at+uint64(from)-span.position, size)
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
	oldest := d.conn.In.firstWaiting()
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
	grown, count, err := in.memory.Receive(l.FD, t.size-t.done, last,
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
		f.Destination = uint32(t.offset + t.done + n)
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
