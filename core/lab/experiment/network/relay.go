package network

import (
	"container/heap"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"transportbench/core/base/netem"
	"transportbench/core/fabric/netspace"
	"transportbench/core/lab/store/result"
)

const (
	maxFrame = ethernetHeader + 1500 + 4
	// batch is how many packets of a rank are read before the others'.
	batch = 64

	etherIPv4 = 0x0800
)

// relay passes packets between interfaces.
type relay struct {
	spaces  []*netspace.Space // of the ranks
	taps    []int             // the interface of each
	wake    int               // an eventfd that ends the thread
	stopped chan struct{}
	shaper  *shaper

	mu    sync.Mutex
	count result.NetworkCounters
	gone  int // how many interfaces were found deleted
}

// newRelay makes a TAP interface in each namespace and starts the thread that passes packets
// between them.
func newRelay(spaces []*netspace.Space, impairments netem.Impairments, seed uint64) (_ wires,
	err error) {
	r := &relay{spaces: spaces, wake: -1, stopped: make(chan struct{}),
		shaper: newShaper(len(spaces), impairments, seed)}
	defer func() {
		if err != nil {
			r.release()
		}
	}()
	for _, space := range spaces {
		var tap int
		err := space.Do(func() (err error) {
			tap, err = openTAP()
			return err
		})
		if err != nil {
			return nil, err
		}
		r.taps = append(r.taps, tap)
	}
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	go r.run()
	return r, nil
}

// openTAP makes the interface of this thread's namespace.
func openTAP() (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	request, err := unix.NewIfreq(wireName)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = os.NewSyscallError("ioctl TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, request))
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// ready implements wires: TAP passes packets at once.
func (r *relay) ready() error { return nil }

func (r *relay) close() {
	_, _ = unix.Write(r.wake, binary.NativeEndian.AppendUint64(nil, 1))
	<-r.stopped
	r.release()
}

// release closes all descriptors.
func (r *relay) release() {
	for _, fd := range append(r.taps, r.wake) {
		_ = unix.Close(fd)
	}
}

func (r *relay) counters() result.NetworkCounters {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.count
	for _, space := range r.spaces {
		_ = space.With(wireName, func(_ *netlink.Handle, tap netlink.Link) error {
			if s := tap.Attrs().Statistics; s != nil {
				c.Overflowed += s.TxDropped // before the relay could read them
			}
			return nil
		})
	}
	return c
}

// run passes packets until close.
func (r *relay) run() {
	defer close(r.stopped)
	// The thread is not unlocked, so that it ends with its timer slack, which is 50 us by default.
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	began := time.Now()
	polled := make([]unix.PollFd, len(r.taps)+1)
	for i, fd := range append(r.taps, r.wake) {
		polled[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	for {
		var timeout *unix.Timespec
		if due, any := r.shaper.next(); any {
			t := unix.NsecToTimespec(int64(max(due-time.Since(began), 0)))
			timeout = &t
		}
		if _, err := unix.Ppoll(polled, timeout, nil); err != nil && err != unix.EINTR {
			return
		}
		woke := time.Now()
		if polled[len(r.taps)].Revents != 0 {
			return
		}
		r.mu.Lock()
		for i, tap := range r.taps {
			switch {
			case polled[i].Revents&unix.POLLERR != 0:
				// The interface is gone. Poll would report that at once, again and again.
				polled[i].Fd = -1
				r.gone++
			case polled[i].Revents != 0:
				r.read(i, tap, began)
			}
		}
		r.deliver(began)
		r.count.BusyNS += uint64(time.Since(woke))
		r.mu.Unlock()
	}
}

// read takes the packets of a rank.
func (r *relay) read(rank, tap int, began time.Time) {
	for range batch {
		frame := r.shaper.buffer()
		n, err := unix.Read(tap, frame)
		if err != nil || n < ethernetHeader {
			r.shaper.free(frame)
			return
		}
		r.shaper.take(rank, frame[:n], time.Since(began), &r.count)
	}
}

// deliver writes the packets that are due.
func (r *relay) deliver(began time.Time) {
	for {
		now := time.Since(began)
		p, ok := r.shaper.due(now)
		if !ok {
			return
		}
		arrived := false
		for rank, tap := range r.taps {
			if rank == p.from || !addressed(p.frame, rank) {
				continue
			}
			_, err := unix.Write(tap, p.frame)
			arrived = arrived || err == nil
		}
		if !arrived {
			r.count.Overflowed++
		} else {
			late := uint64(max(time.Since(began)-p.due, 0))
			r.count.Delivered++
			r.count.DelayNS += uint64(time.Since(began) - p.came)
			r.count.LateNS += late
			r.count.MaxLateNS = max(r.count.MaxLateNS, late)
			if p.overtakes {
				r.count.Reordered++
			}
		}
		r.shaper.free(p.frame)
	}
}

// addressed reports whether a frame is for a rank or for all.
func addressed(frame []byte, rank int) bool {
	return frame[0]&1 == 1 || [6]byte(frame) == [6]byte(mac(rank))
}

// packet is a frame that waits for its delivery. Times are since the relay began.
type packet struct {
	frame     []byte
	from      int
	came, due time.Duration
	number    uint64 // in order of arrival
	overtakes bool   // it skips the delay, and an earlier packet of its rank waits
}

// shaper chooses what happens to each packet, and when. It knows no clock and no interface.
type shaper struct {
	impairments netem.Impairments
	directions  []direction // by sending rank
	waiting     packets
	number      uint64
	buffers     [][]byte
}

// direction is the state of the packets that one rank sends.
type direction struct {
	random  *rand.Rand
	free    time.Duration   // when the limited rate has sent all packets so far
	last    time.Duration   // when the last packet that was not reordered is due
	leaving []time.Duration // when each packet that waits for the limited rate has been sent
	held    int             // how many packets wait to be delivered, for the rate or in the delay
}

func newShaper(ranks int, impairments netem.Impairments, seed uint64) *shaper {
	s := &shaper{impairments: impairments, directions: make([]direction, ranks)}
	for r := range s.directions {
		s.directions[r].random = rand.New(rand.NewPCG(seed, uint64(r)))
	}
	return s
}

func (s *shaper) buffer() []byte {
	if n := len(s.buffers); n > 0 {
		b := s.buffers[n-1]
		s.buffers = s.buffers[:n-1]
		return b
	}
	return make([]byte, maxFrame)
}

func (s *shaper) free(frame []byte) { s.buffers = append(s.buffers, frame[:maxFrame]) }

// take takes a frame that a rank has sent.
func (s *shaper) take(from int, frame []byte, now time.Duration, count *result.NetworkCounters) {
	p := packet{frame: frame, from: from, came: now, due: now, number: s.number}
	s.number++
	if binary.BigEndian.Uint16(frame[12:]) != etherIPv4 {
		s.free(frame)
		return
	}
	count.Packets++
	count.Bytes += uint64(len(frame) - ethernetHeader)
	d, i := &s.directions[from], s.impairments
	// Each packet takes the same draws, so that one impairment does not change the others' choices.
	lost, skips, shift := d.random.Float64() < i.Loss, d.random.Float64() < i.Reorder,
		2*d.random.Float64()-1
	switch {
	case lost:
		count.Dropped++
		s.free(frame)
		return
	case d.held >= delayLimit, i.Rate > 0 && d.waiting(now) >= queueLimit:
		count.Overflowed++
		s.free(frame)
		return
	}
	if i.Rate > 0 {
		d.free = max(d.free, now) + time.Duration(float64(8*len(frame))/i.Rate*1e9)
		p.due = d.free
		d.leaving = append(d.leaving, d.free)
	}
	if skips {
		p.overtakes = d.last > p.due
	} else {
		p.due = max(p.due+i.Delay+time.Duration(shift*float64(i.Jitter)), d.last)
		d.last = p.due
	}
	d.held++
	heap.Push(&s.waiting, p)
}

// waiting returns how many packets wait for the limited rate. Those in the delay after it do not.
func (d *direction) waiting(now time.Duration) int {
	for len(d.leaving) > 0 && d.leaving[0] <= now {
		d.leaving = d.leaving[1:]
	}
	return len(d.leaving)
}

// next returns when the next packet is due.
func (s *shaper) next() (due time.Duration, any bool) {
	if len(s.waiting) == 0 {
		return 0, false
	}
	return s.waiting[0].due, true
}

// due removes and returns the next packet if it is due.
func (s *shaper) due(now time.Duration) (packet, bool) {
	if at, any := s.next(); !any || at > now {
		return packet{}, false
	}
	p := heap.Pop(&s.waiting).(packet)
	s.directions[p.from].held--
	return p, true
}

// packets is a heap of packets by their time.
type packets []packet

func (h packets) Len() int      { return len(h) }
func (h packets) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *packets) Push(p any)   { *h = append(*h, p.(packet)) }

func (h packets) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].number < h[j].number
}

func (h *packets) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = packet{}
	*h = (*h)[:last]
	return p
}
