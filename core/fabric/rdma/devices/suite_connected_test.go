package devices_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
)

var connectedTests = []test{
	{"rc/write", rcWrite},
	{"rc/write-with-immediate", rcWriteWithImmediate},
	{"rc/send", rcSend},
	{"rc/send-with-immediate", rcSendWithImmediate},
	{"rc/read", rcRead},
	{"rc/atomics", rcAtomics},
	{"rc/atomics-of-two", rcAtomicsOfTwo},
	{"rc/inline", rcInline},
	{"rc/unsignaled", rcUnsignaled},
	{"rc/send-queue-bound", rcSendQueueBound},
	{"rc/receive-queue-bound", rcReceiveQueueBound},
	{"rc/order", rcOrder},
	{"rc/read-after-write", rcReadAfterWrite},
	{"rc/signaled-behind-unsignaled", rcSignaledBehindUnsignaled},
	{"rc/receiver-not-ready", rcReceiverNotReady},
	{"rc/both-ways", rcBothWays},
}

var lengths = []int{0, 1, 7, 32, 33, 63, 64, 65, 231, 255, 256, 257, 359, 360, 361, 1000, 1024,
	1025, 4095, 4096, 4097, 65536, 1 << 20}

func rcWrite(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	for i, n := range lengths {
		fill(a.bytes(100, n), i)
		clear(b.memory.Bytes)
		a.post(toward(a.request(rdma.Write, uint64(i), 100, n), b, 200))
		a.succeed(b, uint64(i), rdma.Write)
		require.Equal(t, pattern(i, n), b.bytes(200, n), "bytes written")
		require.Equal(t, make([]byte, 64), b.bytes(136, 64), "bytes before")
		require.Equal(t, make([]byte, 64), b.bytes(200+n, 64), "bytes behind")
	}
	quiet(a, b)
}

func rcWriteWithImmediate(t *testing.T, s *suite) {
	for _, shared := range []bool{false, true} {
		a, b := s.pair(t, setup{shared: shared})
		immediates := []uint32{0, 1, 1 << 31, math.MaxUint32}
		for i, n := range lengths {
			b.receive(1, 0, 0)
			fill(a.bytes(0, n), i)
			r := toward(a.request(rdma.WriteWithImmediate, uint64(i), 0, n), b, 64)
			r.Immediate = immediates[i%len(immediates)]
			a.post(r)
			c := b.succeed(a, 1000, rdma.ReceiveWriteImmediate)
			require.EqualValues(t, 1, c.HasImmediate)
			require.Equal(t, r.Immediate, c.Immediate)
			require.EqualValues(t, n, c.Length, "bytes announced")
			require.Equal(t, pattern(i, n), b.bytes(64, n), "bytes written")
			a.succeed(b, uint64(i), rdma.WriteWithImmediate)
		}
		quiet(a, b)
	}
}

func rcSend(t *testing.T, s *suite) {
	for _, shared := range []bool{false, true} {
		a, b := s.pair(t, setup{shared: shared})
		for i, n := range lengths {
			b.receive(1, 0, n)
			fill(a.bytes(0, n), i)
			a.post(a.request(rdma.Send, uint64(i), 0, n))
			c := b.succeed(a, 1000, rdma.Receive)
			require.Zero(t, c.HasImmediate)
			require.EqualValues(t, n, c.Length)
			require.Equal(t, pattern(i, n), b.bytes(0, n), "bytes received")
			a.succeed(b, uint64(i), rdma.Send)
		}
		quiet(a, b)
	}
}

func rcSendWithImmediate(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	b.receive(2, 0, 256)
	for i, n := range []int{100, 0} {
		r := a.request(rdma.SendWithImmediate, 5, 0, n)
		r.Immediate = math.MaxUint32
		a.post(r)
		c := b.succeed(a, uint64(1000+i), rdma.Receive)
		require.EqualValues(t, 1, c.HasImmediate)
		require.EqualValues(t, math.MaxUint32, c.Immediate)
		require.EqualValues(t, n, c.Length)
		a.succeed(b, 5, rdma.SendWithImmediate)
	}
}

func rcRead(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	for i, n := range lengths {
		fill(b.bytes(200, n), i)
		clear(a.memory.Bytes)
		a.post(toward(a.request(rdma.Read, uint64(i), 100, n), b, 200))
		a.succeed(b, uint64(i), rdma.Read)
		require.Equal(t, pattern(i, n), a.bytes(100, n), "bytes read")
		require.Equal(t, make([]byte, 64), a.bytes(100+n, 64), "bytes behind")
	}
	quiet(a, b)
}

// rcAtomics checks what atomic operations fetch and leave, also behind WRITEs that are under way.
func rcAtomics(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	if !a.device.Attributes().Atomics {
		t.Skipf("%s has no atomic operations", a.device.Attributes().Name)
	}
	word := func(x *side, offset int) uint64 {
		return binary.NativeEndian.Uint64(x.bytes(offset, 8))
	}
	const target, fetched = 64, 128
	atomic := func(opcode rdma.Opcode, id, operand, swap uint64) rdma.SendRequest {
		r := toward(a.request(opcode, id, fetched+8*int(id), 8), b, target)
		r.Operand, r.Swap = operand, swap
		return r
	}
	binary.NativeEndian.PutUint64(b.bytes(target, 8), 40)
	for i, c := range []struct {
		opcode              rdma.Opcode
		operand, swap, left uint64
	}{
		{rdma.FetchAdd, 2, 0, 42},
		{rdma.FetchAdd, math.MaxUint64, 0, 41}, // adds -1
		{rdma.CompareSwap, 41, 1 << 40, 1 << 40},
		{rdma.CompareSwap, 41, 7, 1 << 40}, // is not equal
	} {
		before := word(b, target)
		a.post(atomic(c.opcode, uint64(i), c.operand, c.swap))
		done := a.succeed(b, uint64(i), c.opcode)
		require.EqualValues(t, 8, done.Length)
		require.Equal(t, before, word(a, fetched+8*i), "what request %d fetched", i)
		require.Equal(t, c.left, word(b, target), "what request %d left", i)
	}
	// A WRITE before an atomic operation takes effect first.
	binary.NativeEndian.PutUint64(a.bytes(0, 8), 100)
	write := toward(a.request(rdma.Write, 20, 0, 8), b, target)
	write.Flags = 0
	a.post(write, atomic(rdma.FetchAdd, 21, 1, 0))
	a.succeed(b, 21, rdma.FetchAdd)
	require.EqualValues(t, 100, word(a, fetched+8*21))
	require.EqualValues(t, 101, word(b, target))

	for _, spoil := range []func(*rdma.SendRequest){
		func(r *rdma.SendRequest) { r.Length = 4 },
		func(r *rdma.SendRequest) { r.Remote += 4 },
	} {
		bad := atomic(rdma.FetchAdd, 1, 1, 0)
		spoil(&bad)
		n, err := a.qp.PostSend([]rdma.SendRequest{bad})
		require.ErrorIs(t, err, rdma.ErrInvalid)
		require.Zero(t, n)
	}
	require.Equal(t, make([]byte, 56), b.bytes(target+8, 56), "bytes behind")
	quiet(a, b)
}

// rcAtomicsOfTwo adds from two devices to one word: no addition is lost, and none fetches what
// another one fetched.
func rcAtomicsOfTwo(t *testing.T, s *suite) {
	const adds = 200
	a, b := s.pair(t, setup{})
	c := s.side(t, setup{}.complete(s))
	if !a.device.Attributes().Atomics {
		t.Skipf("%s has no atomic operations", a.device.Attributes().Name)
	}
	second, err := b.device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected,
		Completions: b.cq, SendDepth: depth, ReceiveDepth: 1})
	require.NoError(t, err)
	require.NoError(t, second.Connect(c.qp.Endpoint(), s.Connect))
	require.NoError(t, c.qp.Connect(second.Endpoint(), s.Connect))
	seen := map[uint64]bool{}
	for range adds {
		for _, x := range []*side{a, c} {
			r := toward(x.request(rdma.FetchAdd, 1, 0, 8), b, 0)
			r.Operand = 1
			x.post(r)
		}
		for _, x := range []*side{a, c} {
			until("an addition", func() bool { return len(x.queue) > 0 }, x, b)
			require.Equal(t, rdma.StatusOK, x.queue[0].Status)
			x.queue = nil
			old := binary.NativeEndian.Uint64(x.bytes(0, 8))
			require.False(t, seen[old], "%d was fetched twice", old)
			seen[old] = true
		}
	}
	require.EqualValues(t, 2*adds, binary.NativeEndian.Uint64(b.bytes(0, 8)))
}

// rcInline changes the payload as soon as it is posted, and sends unregistered memory.
func rcInline(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	require.GreaterOrEqual(t, a.qp.MaxInline(), inlineSize,
		"the inline size is less than configured")
	for i := range 200 {
		n := i % (a.qp.MaxInline() + 1)
		fill(a.bytes(0, n), i)
		b.receive(1, 0, 0)
		r := toward(a.request(rdma.WriteWithImmediate, uint64(i), 0, n), b, 4096)
		r.Flags |= rdma.Inline
		r.LocalKey = 0
		a.post(r)
		fill(a.bytes(0, n), i+1)
		b.succeed(a, 1000, rdma.ReceiveWriteImmediate)
		require.Equal(t, pattern(i, n), b.bytes(4096, n))
		a.succeed(b, uint64(i), rdma.WriteWithImmediate)
	}
	r := toward(a.request(rdma.Write, 1, 0, a.qp.MaxInline()+1), b, 0)
	r.Flags |= rdma.Inline
	n, err := a.qp.PostSend([]rdma.SendRequest{r})
	require.Error(t, err, "an inline request over MaxInline was accepted")
	require.Zero(t, n)
	_, err = a.device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected,
		Completions: a.cq,
		SendDepth:   1, ReceiveDepth: 1, MaxInline: 1 << 20})
	require.ErrorContains(t, err, "inline", "an inline size of 1 MiB")
}

func rcUnsignaled(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	for i := range uint64(10 * depth) {
		r := toward(a.request(rdma.Write, i, 0, 8), b, 0)
		if i%16 != 15 {
			r.Flags = 0
		}
		a.post(r)
		if i%16 == 15 {
			a.succeed(b, i, rdma.Write)
		}
	}
	quiet(a, b)
}

func rcSendQueueBound(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{shared: true})
	for range 3 {
		b.receive(depth, 0, 0)
		requests := make([]rdma.SendRequest, 4*depth)
		for i := range requests {
			requests[i] = toward(a.request(rdma.WriteWithImmediate, uint64(i), 0, 8), b, 0)
		}
		n, err := a.qp.PostSend(requests)
		require.ErrorIs(t, err, rdma.ErrQueueFull)
		require.GreaterOrEqual(t, n, depth, "requests taken, by a queue of that depth")
		b.receiveMore(n - depth)
		for i := range n {
			a.succeed(b, uint64(i), rdma.WriteWithImmediate)
		}
		until("all receives", func() bool { return len(b.queue) == n }, b, a)
		b.queue = nil
	}
}

// receiveMore posts n receives, each after one was consumed.
func (x *side) receiveMore(n int) {
	for ; n > 0; n-- {
		before := len(x.queue)
		until("a receive to be consumed", func() bool { return len(x.queue) > before }, x)
		x.receive(1, 0, 0)
	}
}

func rcReceiveQueueBound(t *testing.T, s *suite) {
	for _, shared := range []bool{false, true} {
		a, b := s.pair(t, setup{shared: shared})
		post := b.qp.PostReceive
		if shared {
			post = b.srq.PostReceive
			_, err := b.qp.PostReceive([]rdma.ReceiveRequest{{}})
			require.Error(t, err, "PostReceive of a queue pair with a shared queue was accepted")
		}
		taken := 0
		for err := error(nil); err == nil; {
			require.LessOrEqual(t, taken, 1<<16, "receives taken")
			var n int
			n, err = post([]rdma.ReceiveRequest{{ID: uint64(1000 + taken)}})
			taken += n
			if err != nil {
				require.ErrorIs(t, err, rdma.ErrQueueFull)
			}
		}
		require.GreaterOrEqual(t, taken, depth)
		a.post(toward(a.request(rdma.WriteWithImmediate, 1, 0, 0), b, 0))
		b.succeed(a, 1000, rdma.ReceiveWriteImmediate)
		n, err := post([]rdma.ReceiveRequest{{}})
		require.NoError(t, err, "PostReceive after a receive was consumed")
		require.Equal(t, 1, n)
	}
}

// rcOrder sends postlists with payloads of many sizes and checks that they arrive in order
// and undamaged.
func rcOrder(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{shared: true})
	const stride = 2048
	sizes := []int{0, 8, 40, 300, 2000, 64, 360, 361}
	b.receive(depth, 0, 0)
	next, received := 0, 0
	for received < 40*depth {
		var list []rdma.SendRequest
		for range min(8, depth-(next-received)) {
			n, at := sizes[next%len(sizes)], next%depth*stride
			fill(a.bytes(at, n), next)
			r := toward(a.request(rdma.WriteWithImmediate, uint64(next), at, n), b, at)
			r.Immediate = uint32(next)
			list = append(list, r)
			next++
		}
		a.post(list...)
		b.poll()
		a.poll()
		for _, c := range b.queue {
			require.Equal(t, rdma.StatusOK, c.Status)
			require.EqualValues(t, received, c.Immediate, "immediates, in order")
			n := sizes[received%len(sizes)]
			require.Equal(t, pattern(received, n), b.bytes(received%depth*stride, n),
				"bytes of message %d", received)
			received++
		}
		b.receive(len(b.queue), 0, 0)
		b.queue = nil
		for len(a.queue) < len(list) {
			until("completions", func() bool { return len(a.queue) >= len(list) }, a, b)
		}
		a.queue = a.queue[len(list):]
		for _, c := range a.queue {
			require.Equal(t, rdma.StatusOK, c.Status)
		}
	}
}

// rcReadAfterWrite writes and reads back in one postlist.
func rcReadAfterWrite(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	for i, n := range []int{8, 64, 360, 361, 5000} {
		b.receive(1, 0, 0)
		clear(b.bytes(0, n))
		fill(a.bytes(0, n), i)
		write := toward(a.request(rdma.WriteWithImmediate, 1, 0, n), b, 0)
		read := toward(a.request(rdma.Read, 2, 1<<20, n), b, 0)
		a.post(write, read)
		a.succeed(b, 1, rdma.WriteWithImmediate)
		a.succeed(b, 2, rdma.Read)
		require.Equal(t, pattern(i, n), a.bytes(1<<20, n), "bytes read back")
		b.succeed(a, 1000, rdma.ReceiveWriteImmediate)
	}
}

func rcReceiverNotReady(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{shared: true})
	before := a.device.ReceiverNotReady() + b.device.ReceiverNotReady()
	for i := range 4 {
		a.post(toward(a.request(rdma.WriteWithImmediate, uint64(i), 0, 8), b, 0))
	}
	for range 100 {
		a.poll()
		b.poll()
	}
	require.Empty(t, b.queue, "completions without a receive")
	for range 4 {
		b.receive(1, 0, 0)
		b.succeed(a, 1000, rdma.ReceiveWriteImmediate)
	}
	for i := range 4 {
		a.succeed(b, uint64(i), rdma.WriteWithImmediate)
	}
	require.Greater(t, a.device.ReceiverNotReady()+b.device.ReceiverNotReady(), before,
		"receiver-not-ready counted")
}

func rcBothWays(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	for i := range 20 * depth {
		for _, pair := range [][2]*side{{a, b}, {b, a}} {
			pair[1].receive(1, 0, 0)
			r := toward(pair[0].request(rdma.WriteWithImmediate, uint64(i), 0, 16), pair[1], 4096)
			r.Immediate = uint32(i)
			pair[0].post(r)
		}
		for _, pair := range [][2]*side{{a, b}, {b, a}} {
			x := pair[0]
			until("both completions", func() bool { return len(x.queue) >= 2 }, x, pair[1])
			for _, c := range x.queue {
				require.Equal(t, rdma.StatusOK, c.Status)
				if c.Opcode == rdma.ReceiveWriteImmediate {
					require.EqualValues(t, i, c.Immediate)
				}
			}
			x.queue = nil
		}
	}
}

// rcSignaledBehindUnsignaled checks that signaled requests of every kind complete between
// unsignaled ones.
func rcSignaledBehindUnsignaled(t *testing.T, s *suite) {
	for _, before := range []int{0, 16, 5000} {
		for _, opcode := range []rdma.Opcode{rdma.Write, rdma.WriteWithImmediate, rdma.Send,
			rdma.Read} {
			for _, n := range []int{0, 16, 5000} {
				a, b := s.pair(t, setup{shared: true, memory: 64 << 10})
				b.receive(6, 0, 5000)
				fill(a.bytes(0, before), n)
				unsignaled := toward(a.request(rdma.WriteWithImmediate, 1, 0, before), b, 40<<10)
				unsignaled.Flags = 0
				a.post(unsignaled, unsignaled, unsignaled,
					toward(a.request(opcode, 2, 8192, n), b, 48<<10), unsignaled)
				a.succeed(b, 2, opcode)
				until("the receives", func() bool { return len(b.queue) >= 4 }, b, a)
				a.poll()
				require.Empty(t, a.queue)
				require.Equal(t, pattern(n, before), b.bytes(40<<10, before))
			}
		}
	}
}
