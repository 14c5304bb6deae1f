package tcpx

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
	"transportbench/plugins/tcpx/internal/devmem"
	"transportbench/plugins/tcpx/internal/devmem/devmemtest"
	"transportbench/plugins/tcpx/internal/gpu"
	"transportbench/plugins/tcpx/internal/gpu/gputest"
)

const testBinding = 7

// nic is a NIC of tests with the kernel above it: it delivers the streams of sockets in
// pieces of the dmabuf, in bytes of the buffers, and in neither.
type nic struct {
	t       testing.TB
	d       *devmemIntake
	random  *rand.Rand
	streams map[int][]byte            // by socket: what has not come yet
	tokens  map[int]map[uint32]uint32 // by socket: the page of each token
	free    []uint32                  // pages of the dmabuf
	next    uint32                    // token
}

// Receive implements the intake's receiver.
func (n *nic) Receive(socket int, buffers [][]byte, pieces int) (got int, control []byte, err error) {
	stream := n.streams[socket]
	room := 0
	for _, b := range buffers {
		room += len(b)
	}
	require.Positive(n.t, room)
	require.Positive(n.t, pieces)
	switch way := n.random.IntN(10); {
	case len(stream) == 0:
		return 0, nil, unix.EAGAIN
	case way == 0:
		return 0, nil, unix.EINTR
	case way == 1: // ordinary bytes
		got = n.random.IntN(min(room, len(stream))) + 1
		scatter(buffers, 0, stream[:got])
		n.streams[socket] = stream[got:]
		return got, nil, nil
	}
	linear := 0
	for range n.random.IntN(pieces) + 1 {
		size := min(n.random.IntN(2*pageSize)+1, room-got, len(stream))
		if size == 0 {
			break
		}
		if n.random.IntN(3) == 0 || len(n.free) == 0 {
			scatter(buffers, linear, stream[:size])
			linear += size
			control = append(control, devmemtest.Linear(uint32(size))...)
		} else {
			size = min(size, pageSize)
			page := n.free[len(n.free)-1]
			n.free = n.free[:len(n.free)-1]
			at := int(page)*pageSize + n.random.IntN(pageSize-size+1)
			copy(n.d.memory()[at:], stream[:size])
			n.next++
			n.tokens[socket][n.next] = page
			control = append(control, devmemtest.Dmabuf(uint64(at), uint32(size), n.next, testBinding)...)
		}
		got, stream = got+size, stream[size:]
	}
	n.streams[socket] = stream
	return got, control, nil
}

// scatter writes bytes to buffers from an offset on.
func scatter(buffers [][]byte, at int, from []byte) {
	for _, b := range buffers {
		if at < len(b) {
			from = from[copy(b[at:], from):]
			at = 0
		} else {
			at -= len(b)
		}
	}
}

func (n *nic) dontNeed(socket int, ranges []devmem.TokenRange) (taken int, err error) {
	for _, r := range ranges {
		for i := range r.Count {
			page, out := n.tokens[socket][r.Start+i]
			require.True(n.t, out, "token %d of socket %d is given back, and is not out", r.Start+i, socket)
			delete(n.tokens[socket], r.Start+i)
			n.free = append(n.free, page)
			taken++
		}
	}
	return taken, nil
}

// newNIC makes an intake over a NIC of tests.
func newNIC(t testing.TB, seed uint64, sockets, bytes int) *nic {
	v, err := transport.ParseOptions(schema, map[string]string{"interface": "eth7"})
	require.NoError(t, err)
	s := &settings{options: v, request: 8 << 10, peers: 1, timeout: time.Minute}
	size := s.dmabufSize()
	n := &nic{t: t, random: rand.New(rand.NewPCG(seed, 1)), streams: map[int][]byte{}, tokens: map[int]map[uint32]uint32{}}
	n.d = newDmabufIntake(testBinding, size, make([]byte, size+s.linearPages()*pageSize), s)
	n.d.receiver, n.d.dontNeed = n, n.dontNeed
	for page := range size / pageSize {
		n.free = append(n.free, uint32(page))
	}
	for socket := range sockets {
		stream := make([]byte, bytes)
		fill(stream, uint64(socket))
		n.streams[socket], n.tokens[socket] = stream, map[uint32]uint32{}
	}
	return n
}

// TestDevmemIntake: whatever the pieces are, the fragments are the stream in order; all
// tokens and pages come back, those of a socket that ends with it.
func TestDevmemIntake(t *testing.T) {
	for seed := range uint64(20) {
		const sockets, size = 3, 200 << 10
		n := newNIC(t, seed, sockets, size)
		want, got := map[int][]byte{}, map[int][]byte{}
		for socket, stream := range n.streams {
			want[socket] = stream
		}
		ended := -1
		if seed%2 == 1 {
			ended = 1
		}
		var held [][]fragment
		for rounds := 0; len(n.streams[0])+len(n.streams[1])+len(n.streams[2]) > 0; rounds++ {
			require.Less(t, rounds, 100000, "it does not get on")
			socket := n.random.IntN(sockets)
			more := make([]fragment, n.random.IntN(40))
			grown, count, err := n.d.receive(socket, n.random.IntN(100<<10)+1, fragment{}, more)
			require.NoError(t, err)
			require.Zero(t, grown)
			for _, f := range more[:count] {
				got[socket] = append(got[socket], n.d.memory()[f.source:f.source+f.length]...)
			}
			held = append(held, more[:count])
			for len(held) > n.random.IntN(20) { // consumed in no order
				i := n.random.IntN(len(held))
				n.d.give(held[i], 0)
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			}
			if socket == ended && len(n.streams[socket]) < size/2 {
				n.d.forget(socket)
				for _, page := range n.tokens[socket] { // the kernel does that
					n.free = append(n.free, page)
				}
				n.tokens[socket] = map[uint32]uint32{}
				want[socket], n.streams[socket] = got[socket], nil
				ended = -1
			}
		}
		for _, f := range held {
			n.d.give(f, 0)
		}
		for socket := range sockets {
			require.True(t, bytes.Equal(want[socket], got[socket]), "socket %d", socket)
			require.Empty(t, n.tokens[socket])
		}
		require.Len(t, n.d.pages, len(n.d.users))
		require.Len(t, n.free, n.d.size/pageSize)
		require.Len(t, n.d.free, len(n.d.held))
	}
}

// told is a receiver that returns the same again and again.
type told struct {
	n       int
	control []byte
}

func (r told) Receive(int, [][]byte, int) (int, []byte, error) { return r.n, r.control, nil }

// TestDevmemIntakeRefuses what no kernel says.
func TestDevmemIntakeRefuses(t *testing.T) {
	more := make([]fragment, 8)
	for name, c := range map[string]struct {
		told told
		err  error
	}{
		"the end":               {told{0, nil}, errSocketClosed},
		"more than came":        {told{10, devmemtest.Dmabuf(0, 11, 1, testBinding)}, devmem.ErrControl},
		"more linear than came": {told{10, devmemtest.Linear(11)}, devmem.ErrControl},
		"less than came":        {told{10, devmemtest.Dmabuf(0, 9, 1, testBinding)}, devmem.ErrControl},
		"another binding":       {told{10, devmemtest.Dmabuf(0, 10, 1, testBinding+1)}, devmem.ErrBinding},
	} {
		n := newNIC(t, 1, 0, 0)
		n.d.receiver = c.told
		_, _, err := n.d.receive(3, 100, fragment{}, more)
		require.ErrorIs(t, err, c.err, name)
	}
	n := newNIC(t, 1, 1, 1<<20)
	n.d.receiver = told{10, devmemtest.Dmabuf(0, 10, 1, testBinding)}
	n.d.dontNeed = func(int, []devmem.TokenRange) (int, error) { return 0, nil }
	_, count, err := n.d.receive(0, 100, fragment{}, more)
	require.NoError(t, err)
	n.d.give(more[:count], 0)
	_, _, err = n.d.receive(0, 100, fragment{}, more)
	require.ErrorIs(t, err, devmem.ErrTokens, "a leak is told of with the next receive")
	require.ErrorIs(t, n.d.close(), devmem.ErrTokens)
}

// TestDevmemIntakeStarves: where what holds all the room waits for more, that is an error
// with the remedy, and not a wait without end; what is given back makes all well again.
func TestDevmemIntakeStarves(t *testing.T) {
	for name, c := range map[string]struct {
		told  told
		more  int // fragments of a request
		words string
	}{
		"steered elsewhere": {told{pageSize, nil}, 8, "(ethtool -N eth7 flow-type tcp4 dst-port PORT queue N, and again with src-port)"},
		"not split":         {told{pageSize, devmemtest.Linear(pageSize)}, 8, "tcp-data-split on"},
		"small pieces":      {told{10, devmemtest.Dmabuf(0, 10, 1, testBinding)}, 8, "places for pieces of the dmabuf"},
		"many pieces":       {told{10, devmemtest.Dmabuf(0, 10, 1, testBinding)}, 1, "a request has come in 2048 pieces"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNIC(t, 1, 1, 0)
			n.d.receiver = c.told
			n.d.dontNeed = func(_ int, ranges []devmem.TokenRange) (taken int, err error) {
				for _, r := range ranges {
					taken += int(r.Count)
				}
				return taken, nil
			}
			var held []fragment
			receive := func() error {
				more := make([]fragment, c.more)
				_, count, err := n.d.receive(0, pageSize, fragment{}, more)
				held = append(held, more[:count]...)
				return err
			}
			for n.d.starved < 2*starvedReceives {
				require.NoError(t, receive(), "it may take a while")
			}
			n.d.patience = 0
			err := receive()
			require.ErrorIs(t, err, transport.ErrUnavailable)
			require.ErrorContains(t, err, c.words)
			require.ErrorContains(t, err, "eth7")
			n.d.give(held, 0)
			require.NoError(t, receive())
		})
	}
}

// TestOwnFailuresAreTold: what fails on this side is Poll's error, with its words, before
// the peer is told as lost.
func TestOwnFailuresAreTold(t *testing.T) {
	lost := func(t *testing.T, a, b *side, words string) {
		b.post(t, []byte("payload"))
		_, err := a.poll(t, b)
		require.ErrorIs(t, err, transport.ErrUnavailable)
		require.ErrorContains(t, err, words)
		require.Equal(t, transport.EventPeerLost, a.await(t, b).Kind)
	}
	t.Run("NIC", func(t *testing.T) {
		overPlainTCP(t)
		a, b := pairOf(t, map[string]string{"mode": "devmem"}, nil)
		b.post(t, []byte("payload"))
		a.await(t, b)
		a.worker.intake.(*devmemIntake).failed = devmem.ErrTokens
		lost(t, a, b, "tcpx: poll peer 0: unavailable: mode devmem: the kernel took back fewer pieces")
	})
	t.Run("GPU", func(t *testing.T) {
		var first *gputest.Device // opened for the first worker, after one to look whether it can be
		opened := 0
		replaceDevice(t, func(int) (gpu.Device, error) {
			d := &gputest.Device{}
			if opened++; opened == 2 {
				first = d
			}
			return d.Open()
		})
		a, b := pairOf(t, map[string]string{"mode": "gpu"}, nil)
		b.post(t, []byte("payload"))
		a.await(t, b)
		first.Fail("Launch")
		lost(t, a, b, "tcpx: poll peer 0: unavailable: mode gpu: fails on purpose: Launch")
		first.Fail("")
	})
}

// overPlainTCP has mode devmem without a binding: all bytes come as those of a flow that
// is steered to another queue.
func overPlainTCP(t *testing.T) {
	bound := modes
	t.Cleanup(func() { modes = bound })
	modes = append([]mode{}, modes...)
	m := &modes[len(modes)-1]
	require.Equal(t, devmemMode.name, m.name)
	m.available = func(*settings) error { return nil }
	m.newIntake = func(s *settings) (intake, error) {
		return newDmabufIntake(testBinding, s.dmabufSize(), make([]byte, s.dmabufSize()+s.linearPages()*pageSize), s), nil
	}
}

// TestConformanceOverDevmemIntake runs the suite with the intake of mode devmem and no
// binding: recvmsg is the real one.
func TestConformanceOverDevmemIntake(t *testing.T) {
	overPlainTCP(t)
	transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Kill: kill, MaxPayload: 20000,
		Options: map[string]string{"mode": "devmem", "chunk": "16KiB", "sockets": "2"}})
}

// TestControlInDmabuf: the kernel answers EFAULT to who reads bytes in a dmabuf as others,
// as it does to who reads to nowhere.
func TestControlInDmabuf(t *testing.T) {
	_, err := received(-1, unix.EFAULT)
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err, "the port of the option data-port")
	require.NoError(t, peeked(received(-1, unix.EFAULT)), "a socket with such bytes is open")
}
