package bounce

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/devmem"
	"transportbench/plugins/tcpx/internal/devmem/devmemtest"
	"transportbench/plugins/tcpx/internal/gpu"
	"transportbench/plugins/tcpx/internal/gpu/gputest"
)

const testBinding = 7

// nic is a fake NIC and the kernel above it: it delivers the streams of sockets in pieces of
// the dmabuf, in bytes of the buffers, and not at all.
type nic struct {
	t       testing.TB
	d       *Dmabuf
	random  *rand.Rand
	streams map[int][]byte            // by socket: what has not come yet
	tokens  map[int]map[uint32]uint32 // by socket: the page of each token
	free    []uint32                  // pages of the dmabuf
	memory  []byte                    // the dmabuf
	next    uint32                    // token
}

// Receive implements Dmabuf.receiver.
func (n *nic) Receive(socket int, buffers [][]byte, pieces int) (got int, control []byte,
	err error) {
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
		size := min(n.random.IntN(2*PageSize)+1, room-got, len(stream))
		if size == 0 {
			break
		}
		if n.random.IntN(3) == 0 || len(n.free) == 0 {
			scatter(buffers, linear, stream[:size])
			linear += size
			control = append(control, devmemtest.Linear(uint32(size))...)
		} else {
			size = min(size, PageSize)
			page := n.free[len(n.free)-1]
			n.free = n.free[:len(n.free)-1]
			at := int(page)*PageSize + n.random.IntN(PageSize-size+1)
			copy(n.memory[at:], stream[:size])
			n.next++
			n.tokens[socket][n.next] = page
			control = append(control, devmemtest.Dmabuf(uint64(at), uint32(size), n.next,
				testBinding)...)
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
			require.True(n.t, out, "token %d of socket %d is given back, and is not out",
				r.Start+i, socket)
			delete(n.tokens[socket], r.Start+i)
			n.free = append(n.free, page)
			taken++
		}
	}
	return taken, nil
}

// newNIC returns bounce memory over a fake NIC, in the memory of a GPU unless device is nil.
func newNIC(t testing.TB, device *GPU, seed uint64, sockets, bytes int) *nic {
	c := &DmabufConfig{Device: device, Interface: "eth7", Request: 8 << 10, Peers: 1,
		Patience: time.Minute, Steering: "the steering command"}
	size := c.dmabufSize()
	n := &nic{t: t, random: rand.New(rand.NewPCG(seed, 1)), streams: map[int][]byte{},
		tokens: map[int]map[uint32]uint32{}}
	n.d = NewDmabuf(&devmem.Binding{ID: testBinding, Memory: make([]byte, c.Memory())}, c)
	n.memory = n.d.Memory()
	if device != nil {
		o := c.Options()
		descriptor, err := o.Export(o.Size, o.Extra)
		require.NoError(t, err)
		n.memory, err = unix.Mmap(descriptor, gputest.ExportedAt, size,
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		require.NoError(t, err)
		require.NoError(t, unix.Close(descriptor))
		t.Cleanup(func() { require.NoError(t, unix.Munmap(n.memory)) })
	}
	n.d.receiver, n.d.dontNeed = n, n.dontNeed
	for page := range size / PageSize {
		n.free = append(n.free, uint32(page))
	}
	for socket := range sockets {
		n.streams[socket], n.tokens[socket] = random(uint64(socket), bytes), map[uint32]uint32{}
	}
	return n
}

// TestDmabuf: whatever the pieces are, the fragments are the stream in order, and all tokens and
// pages come back. The tokens of a socket end with it.
func TestDmabuf(t *testing.T) {
	for seed := range uint64(20) {
		const sockets, size = 3, 200 << 10
		n := newNIC(t, nil, seed, sockets, size)
		want, got := map[int][]byte{}, map[int][]byte{}
		for socket, stream := range n.streams {
			want[socket] = stream
		}
		ended := -1
		if seed%2 == 1 {
			ended = 1
		}
		var held [][]Fragment
		for rounds := 0; len(n.streams[0])+len(n.streams[1])+len(n.streams[2]) > 0; rounds++ {
			require.Less(t, rounds, 100000, "it does not get on")
			socket := n.random.IntN(sockets)
			more := make([]Fragment, n.random.IntN(40))
			grown, count, err := n.d.Receive(socket, n.random.IntN(100<<10)+1, Fragment{}, more)
			require.NoError(t, err)
			require.Zero(t, grown)
			for _, f := range more[:count] {
				got[socket] = append(got[socket], n.d.Memory()[f.Source:f.Source+f.Length]...)
			}
			held = append(held, more[:count])
			for len(held) > n.random.IntN(20) { // consumed in no order
				i := n.random.IntN(len(held))
				n.d.Give(held[i], 0)
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			}
			if socket == ended && len(n.streams[socket]) < size/2 {
				n.d.Forget(socket)
				for _, page := range n.tokens[socket] { // the kernel does that
					n.free = append(n.free, page)
				}
				n.tokens[socket] = map[uint32]uint32{}
				want[socket], n.streams[socket] = got[socket], nil
				ended = -1
			}
		}
		for _, f := range held {
			n.d.Give(f, 0)
		}
		for socket := range sockets {
			require.True(t, bytes.Equal(want[socket], got[socket]), "socket %d", socket)
			require.Empty(t, n.tokens[socket])
		}
		require.Len(t, n.d.pages, len(n.d.users))
		require.Len(t, n.free, n.d.size/PageSize)
		require.Len(t, n.d.free, len(n.d.held))
	}
}

// TestDmabufOfGPU: a GPU unpacks what the NIC put into its memory together with what came through
// the host, and the host sees the bytes that it fetches.
func TestDmabufOfGPU(t *testing.T) {
	const size = 60 << 10
	for seed := range uint64(10) {
		fake := &gputest.Device{}
		g, err := NewGPU(gpu.Config{Mode: gpu.Kernel,
			Open: func() (gpu.Device, error) { return fake.Open() }})
		require.NoError(t, err)
		n := newNIC(t, g, seed, 1, size)
		_, err = NewSlots(n.d, g)
		require.NoError(t, err)
		want := n.streams[0]
		to, err := g.Allocate(64 << 10)
		require.NoError(t, err)
		for at := 0; at < size; {
			more := make([]Fragment, 40)
			_, count, err := n.d.Receive(0, 8<<10, Fragment{}, more)
			require.NoError(t, err)
			begin := at
			for i := range more[:count] {
				f := &more[i]
				f.Destination = uint32(at - begin)
				require.NoError(t, n.d.Fetch(f.Source, int(f.Length)))
				require.True(t, bytes.Equal(want[at:at+int(f.Length)],
					n.d.Memory()[f.Source:f.Source+f.Length]))
				at += int(f.Length)
			}
			if count == 0 {
				continue
			}
			require.NoError(t, g.Launch(0, more[:count], to.Slice(begin, at-begin)))
			for done := false; !done; runtime.Gosched() {
				done, err = g.Done(0)
				require.NoError(t, err)
			}
			n.d.Give(more[:count], 0)
		}
		got := make([]byte, size)
		require.NoError(t, g.Read(got, to))
		require.True(t, bytes.Equal(want, got))
		require.NoError(t, g.Free(to))
		require.NoError(t, g.Close())
		require.Empty(t, fake.Mistakes())
		require.Positive(t, n.d.counts.linearBytes)
		require.Positive(t, n.d.counts.dmabufBytes)
	}
}

// fixed is a receiver that returns the same again and again.
type fixed struct {
	n       int
	control []byte
}

func (r fixed) Receive(int, [][]byte, int) (int, []byte, error) { return r.n, r.control, nil }

// TestDmabufRefuses: control messages that no kernel sends are errors.
func TestDmabufRefuses(t *testing.T) {
	more := make([]Fragment, 8)
	for name, c := range map[string]struct {
		receiver fixed
		err      error
	}{
		"the end": {fixed{0, nil}, sock.ErrClosed},
		"more than came": {fixed{10, devmemtest.Dmabuf(0, 11, 1, testBinding)},
			devmem.ErrControl},
		"more linear than came": {fixed{10, devmemtest.Linear(11)}, devmem.ErrControl},
		"less than came": {fixed{10, devmemtest.Dmabuf(0, 9, 1, testBinding)},
			devmem.ErrControl},
		"another binding": {fixed{10, devmemtest.Dmabuf(0, 10, 1, testBinding+1)},
			devmem.ErrBinding},
	} {
		n := newNIC(t, nil, 1, 0, 0)
		n.d.receiver = c.receiver
		_, _, err := n.d.Receive(3, 100, Fragment{}, more)
		require.ErrorIs(t, err, c.err, name)
	}
	n := newNIC(t, nil, 1, 1, 1<<20)
	n.d.receiver = fixed{10, devmemtest.Dmabuf(0, 10, 1, testBinding)}
	n.d.dontNeed = func(int, []devmem.TokenRange) (int, error) { return 0, nil }
	_, count, err := n.d.Receive(0, 100, Fragment{}, more)
	require.NoError(t, err)
	n.d.Give(more[:count], 0)
	_, _, err = n.d.Receive(0, 100, Fragment{}, more)
	require.ErrorIs(t, err, devmem.ErrTokens, "the next receive reports a leak")
	require.ErrorIs(t, n.d.Close(), devmem.ErrTokens)
}

// TestDmabufStarves: if incomplete requests hold all the room, the receive returns an error with
// the remedy instead of waiting forever. Giving back makes receives work again.
func TestDmabufStarves(t *testing.T) {
	for name, c := range map[string]struct {
		receiver fixed
		more     int // fragments of a request
		words    string
	}{
		"steered elsewhere": {fixed{PageSize, nil}, 8, "(the steering command)"},
		"not split":         {fixed{PageSize, devmemtest.Linear(PageSize)}, 8, "tcp-data-split on"},
		"small pieces": {fixed{10, devmemtest.Dmabuf(0, 10, 1, testBinding)}, 8,
			"entries for pieces of the dmabuf"},
		"many pieces": {fixed{10, devmemtest.Dmabuf(0, 10, 1, testBinding)}, 1,
			"a request has come in 2048 pieces"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNIC(t, nil, 1, 1, 0)
			n.d.receiver = c.receiver
			n.d.dontNeed = func(_ int, ranges []devmem.TokenRange) (taken int, err error) {
				for _, r := range ranges {
					taken += int(r.Count)
				}
				return taken, nil
			}
			var held []Fragment
			receive := func() error {
				more := make([]Fragment, c.more)
				_, count, err := n.d.Receive(0, PageSize, Fragment{}, more)
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
			n.d.Give(held, 0)
			require.NoError(t, receive())
		})
	}
}
