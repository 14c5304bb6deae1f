package uring

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

var testConfig = Config{Submissions: 16, Completions: 64, Files: 8}

// openRing makes a ring, which the test closes. It skips the test if the machine refuses io_uring.
func openRing(t *testing.T, c Config) *Ring {
	t.Helper()
	r, err := New(c)
	if errors.Is(err, transport.ErrUnavailable) && os.Getenv(transporttest.ForbidSkips) == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return r
}

func newRing(t *testing.T) *Ring {
	t.Helper()
	r := openRing(t, testConfig)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// memory returns memory outside of the Go heap.
func memory(t *testing.T, size int) []byte {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	return b
}

// socketPair returns two connected sockets; the test closes them.
func socketPair(t *testing.T) (near, far int) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// pipe is a socket of a ring, with a stream for what it receives.
type pipe struct {
	t      *testing.T
	ring   *Ring
	file   int
	stream *Stream
	memory []byte
	output []byte

	armed    bool
	consumed int // bytes of the stream
	received int
	sending  bool
	sent     int
	ends     []unix.Errno // of receives; 0 is the end of the stream
	noBuffer int
}

const (
	dataReceive = 1 << 32
	dataSend    = 2 << 32
)

func newPipe(t *testing.T, r *Ring, file, fd, size int) *pipe {
	p := &pipe{t: t, ring: r, file: file, memory: memory(t, size), output: memory(t, 1<<20)}
	require.NoError(t, r.SetFile(file, fd))
	var err error
	p.stream, err = r.NewStream(uint16(file), p.memory)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.stream.Close()) })
	return p
}

func (p *pipe) arm() {
	if !p.armed && !p.stream.Full() && len(p.ends) == 0 {
		p.armed = p.ring.Receive(p.file, p.stream, dataReceive|uint64(p.file))
	}
}

func (p *pipe) send(n int) {
	p.sending = p.ring.Send(p.file, p.output[:n], dataSend|uint64(p.file))
}

// take handles one completion.
func (p *pipe) take(c Completion) {
	if c.Data>>32 == dataSend>>32 {
		require.Zero(p.t, c.Errno(), "sending")
		p.sending = false
		p.sent += int(c.Result)
		return
	}
	switch {
	case c.Result > 0:
		require.NoError(p.t, p.stream.Received(int(c.Result)))
		p.received += int(c.Result)
	case c.Errno() == unix.ENOBUFS:
		p.noBuffer++
	case c.Errno() == unix.ECANCELED: // its thread has ended
	default:
		p.ends = append(p.ends, c.Errno())
	}
	if !c.More {
		p.armed = false
	}
}

// bytes returns what was received and not consumed, in order.
func (p *pipe) bytes() (b []byte) {
	for at := p.consumed; at < p.received; at++ {
		b = append(b, p.memory[at%len(p.memory)])
	}
	return b
}

func (p *pipe) consume(n int) {
	p.consumed += n
	p.stream.Release(uint64(p.consumed))
}

// run takes completions until done returns true.
func run(t *testing.T, r *Ring, pipes []*pipe, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !done() {
		require.True(t, time.Now().Before(deadline), "timed out")
		require.NoError(t, r.Wait(200*time.Microsecond))
		for c, ok := r.Next(); ok; c, ok = r.Next() {
			pipes[uint32(c.Data)].take(c)
		}
	}
}

// Bytes arrive once and in order through rings that are full most of the time, in pieces of all
// sizes.
func TestEcho(t *testing.T) {
	const total = 1 << 19
	r := newRing(t)
	near, far := socketPair(t)
	a, b := newPipe(t, r, 0, near, 4096), newPipe(t, r, 1, far, 8192)
	random := rand.New(rand.NewPCG(1, 2))
	want := make([]byte, total)
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	var echoed, got []byte
	run(t, r, []*pipe{a, b}, func() bool {
		a.arm()
		b.arm()
		if !a.sending && a.sent < total {
			a.send(copy(a.output, want[a.sent:min(total, a.sent+1+random.IntN(20000))]))
		}
		if n := b.received - b.consumed; n > 0 {
			n = 1 + random.IntN(n)
			echoed = append(echoed, b.bytes()[:n]...)
			b.consume(n)
		}
		if !b.sending && b.sent < len(echoed) {
			b.send(copy(b.output, echoed[b.sent:]))
		}
		if n := a.received - a.consumed; n > 0 {
			n = 1 + random.IntN(n)
			got = append(got, a.bytes()[:n]...)
			a.consume(n)
		}
		return len(got) == total
	})
	require.True(t, bytes.Equal(want, got), "the bytes that came back")
}

// The kernel stops when it has filled all that it was given, and goes on with what is released.
func TestBuffersExhausted(t *testing.T) {
	r := newRing(t)
	near, far := socketPair(t)
	p := newPipe(t, r, 0, near, 4096)
	sent := make([]byte, 10000)
	for i := range sent {
		sent[i] = byte(i * 7)
	}
	_, err := unix.Write(far, sent)
	require.NoError(t, err)
	p.arm()
	run(t, r, []*pipe{p}, func() bool { return !p.armed })
	require.Equal(t, 4096, p.received)
	require.Equal(t, 1, p.noBuffer, "receives that ended with ENOBUFS")
	require.True(t, p.stream.Full())

	got := p.bytes()
	p.consume(100) // less than a chunk
	require.True(t, p.stream.Full())
	p.consume(4096 - 100)
	require.False(t, p.stream.Full())
	for len(got) < len(sent) {
		p.arm()
		want := min(len(sent)-len(got), 4096)
		run(t, r, []*pipe{p}, func() bool { return p.received-p.consumed == want })
		got = append(got, p.bytes()...)
		p.consume(p.received - p.consumed)
		run(t, r, []*pipe{p}, func() bool { return want < 4096 || !p.armed })
	}
	require.True(t, bytes.Equal(sent, got))
}

// Completions that find the queue full wait in the kernel until it is read, and then come in order.
func TestCompletionQueueOverflows(t *testing.T) {
	r := openRing(t, Config{Submissions: 4, Completions: 4, Files: 2})
	defer func() { require.NoError(t, r.Close()) }()
	near, far := socketPair(t)
	require.NoError(t, r.SetFile(0, near))
	out := memory(t, 4096)
	const sends = 40
	for i := range sends {
		for !r.Send(0, out[:100], uint64(i)) {
			require.NoError(t, r.Submit())
		}
	}
	require.NoError(t, r.Submit())
	require.True(t, r.NeedsEnter(), "completions wait in the kernel")
	for i := 0; i < sends; {
		c, ok := r.Next()
		if !ok {
			require.NoError(t, r.Submit())
			continue
		}
		require.Equal(t, uint64(i), c.Data)
		require.Equal(t, int32(100), c.Result)
		i++
	}
	require.False(t, r.NeedsEnter())
	require.Zero(t, r.inFlight)
	got := make([]byte, 2*sends*100)
	n, err := unix.Read(far, got)
	require.NoError(t, err)
	require.Equal(t, sends*100, n)
}

// A multishot receive that meets a full queue of completions loses nothing.
func TestReceiveMeetsFullQueue(t *testing.T) {
	r := openRing(t, Config{Submissions: 4, Completions: 4, Files: 2})
	near, far := socketPair(t)
	p := newPipe(t, r, 0, near, 1<<16)
	defer func() { require.NoError(t, r.Close()) }()
	var want []byte
	for i := range 50 {
		p.arm()
		require.NoError(t, r.Submit())
		want = append(want, byte(i))
		_, err := unix.Write(far, want[i:])
		require.NoError(t, err)
		require.NoError(t, r.Submit()) // one completion for each byte, until the queue is full
	}
	require.NotZero(t, r.sqFlags.Load()&sqCQOverflow, "the queue must have overflowed")
	run(t, r, []*pipe{p}, func() bool { p.arm(); return p.received == len(want) })
	require.Equal(t, want, p.bytes())
}

// A send of more than the socket takes ends short, or waits for the reader.
func TestShortSends(t *testing.T) {
	r := newRing(t)
	near, far := socketPair(t)
	p := newPipe(t, r, 0, near, 4096)
	for i := range p.output {
		p.output[i] = byte(i * 13)
	}
	var got []byte
	sends := 0
	buffer := make([]byte, 50000)
	for len(got) < len(p.output) {
		if !p.sending && p.sent < len(p.output) {
			p.sending = r.Send(0, p.output[p.sent:], dataSend)
			sends++
		}
		require.NoError(t, r.Submit())
		n, _, err := unix.Recvfrom(far, buffer, unix.MSG_DONTWAIT)
		if err != unix.EAGAIN {
			require.NoError(t, err)
			got = append(got, buffer[:n]...)
		}
		for c, ok := r.Next(); ok; c, ok = r.Next() {
			p.take(c)
		}
	}
	require.Greater(t, sends, 1, "sends of 1 MiB")
	require.True(t, bytes.Equal(p.output, got))
}

// After Close the kernel does not write to the memory of receives nor read that of sends.
func TestCloseWithOperationsInFlight(t *testing.T) {
	r := openRing(t, testConfig)
	nearA, farA := socketPair(t)
	nearB, farB := socketPair(t)
	a, b := newPipe(t, r, 0, nearA, 4096), newPipe(t, r, 1, nearB, 4096)
	a.arm()
	b.arm()
	for b.sent < 10<<20 && !t.Failed() { // until a send finds no room
		b.send(len(b.output))
		require.NoError(t, r.Submit())
		c, ok := r.Next()
		if !ok {
			break
		}
		b.take(c)
	}
	require.Equal(t, 3, r.inFlight, "two receives and a send")
	require.NoError(t, r.Close())
	require.NoError(t, r.Close(), "the second Close")
	for i := range a.memory {
		a.memory[i] = 0xEE
	}
	_, err := unix.Write(farA, []byte("too late"))
	require.NoError(t, err)
	n, _, err := unix.Recvfrom(farB, make([]byte, 64<<10), 0) // makes room for the send
	require.NoError(t, err)
	require.Positive(t, n)
	time.Sleep(2 * time.Millisecond)
	require.Equal(t, bytes.Repeat([]byte{0xEE}, 4096), a.memory)
}

// Cancel ends the operations on one file, and leaves the others.
func TestCancel(t *testing.T) {
	r := newRing(t)
	nearA, _ := socketPair(t)
	nearB, farB := socketPair(t)
	a, b := newPipe(t, r, 3, nearA, 4096), newPipe(t, r, 1, nearB, 4096)
	a.arm()
	b.arm()
	require.NoError(t, r.Submit())
	require.NoError(t, r.Cancel(3))
	run(t, r, []*pipe{nil, b, nil, a}, func() bool { return !a.armed })
	require.NoError(t, r.Cancel(3), "nothing to cancel")
	require.NoError(t, r.SetFile(3, -1))
	_, err := unix.Write(farB, []byte{1})
	require.NoError(t, err)
	run(t, r, []*pipe{nil, b, nil, a}, func() bool { return b.received == 1 })
	require.True(t, b.armed)
}

// A ring can be used and closed on another thread than the one that began its operations, also
// after that thread has ended, which cancels them.
func TestOtherThreads(t *testing.T) {
	for _, ends := range []bool{true, false} {
		r := openRing(t, testConfig)
		near, far := socketPair(t)
		p := newPipe(t, r, 0, near, 4096)
		begun, end := make(chan error), make(chan bool)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends
			p.arm()
			begun <- r.Submit()
			<-end
		}()
		require.NoError(t, <-begun)
		if ends {
			close(end)
		}
		_, err := unix.Write(far, []byte("hello"))
		require.NoError(t, err)
		run(t, r, []*pipe{p}, func() bool { p.arm(); return p.received == 5 })
		require.Equal(t, "hello", string(p.bytes()))
		require.NoError(t, r.Close())
		if !ends {
			close(end)
		}
	}
}

// The descriptor is readable while there are completions, so that it can be polled with others.
func TestDescriptorIsReadable(t *testing.T) {
	r := newRing(t)
	near, far := socketPair(t)
	p := newPipe(t, r, 0, near, 4096)
	p.arm()
	require.NoError(t, r.Submit())
	readable := func(timeout int) bool {
		for {
			fds := []unix.PollFd{{Fd: int32(r.FD()), Events: unix.POLLIN}}
			n, err := unix.Poll(fds, timeout)
			if err == unix.EINTR {
				continue
			}
			require.NoError(t, err)
			return n == 1
		}
	}
	require.False(t, readable(0))
	_, err := unix.Write(far, []byte{1})
	require.NoError(t, err)
	require.True(t, readable(10000))
	run(t, r, []*pipe{p}, func() bool { return p.received == 1 })
	require.False(t, readable(0))
}

// A peer that closes ends the stream after all its bytes.
func TestPeerCloses(t *testing.T) {
	r := newRing(t)
	near, far := socketPair(t)
	p := newPipe(t, r, 0, near, 4096)
	_, err := unix.Write(far, []byte("farewell"))
	require.NoError(t, err)
	require.NoError(t, unix.Shutdown(far, unix.SHUT_RDWR))
	run(t, r, []*pipe{p}, func() bool { p.arm(); return len(p.ends) > 0 })
	require.Equal(t, "farewell", string(p.bytes()))
	require.Equal(t, []unix.Errno{0}, p.ends)
	require.True(t, r.Send(0, p.output[:8], dataSend))
	require.NoError(t, r.Wait(time.Second))
	c, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, unix.EPIPE, c.Errno(), "sending to a peer that has closed, without a signal")
}

const echoRole = "echo"

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{echoRole: echo}) {
		return
	}
	os.Exit(m.Run())
}

// echo sends back what a ring receives from descriptor 3.
func echo(*fabrictest.Parent) error {
	r, err := New(testConfig)
	if err != nil {
		return err
	}
	received, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	stream, err := r.NewStream(0, received)
	if err := errors.Join(err, r.SetFile(0, 3)); err != nil {
		return err
	}
	r.Receive(0, stream, dataReceive)
	for {
		if err := r.Wait(time.Second); err != nil {
			return err
		}
		for c, ok := r.Next(); ok; c, ok = r.Next() {
			if _, err := unix.Write(3, received[:max(c.Result, 0)]); err != nil {
				return err
			}
		}
	}
}

// A process that is killed with operations in flight closes its sockets, and its ring disappears.
func TestPeerProcessIsKilled(t *testing.T) {
	r := newRing(t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	near, far := fds[0], fds[1]
	defer func() { require.NoError(t, unix.Close(near)) }()
	p := newPipe(t, r, 0, near, 4096)
	f := os.NewFile(uintptr(far), "far")
	child := fabrictest.Start(t, echoRole, nil,
		func(c *exec.Cmd) { c.ExtraFiles = []*os.File{f} })
	require.NoError(t, f.Close())
	p.send(copy(p.output, "hello"))
	run(t, r, []*pipe{p}, func() bool { p.arm(); return p.received == 5 })
	require.Equal(t, "hello", string(p.bytes()))
	child.Kill()
	run(t, r, []*pipe{p}, func() bool { p.arm(); return len(p.ends) > 0 })
	require.Contains(t, []unix.Errno{0, unix.ECONNRESET}, p.ends[0])
}

// Nothing allocates between New and Close.
func TestDataPathDoesNotAllocate(t *testing.T) {
	r := newRing(t)
	near, far := socketPair(t)
	a, b := newPipe(t, r, 0, near, 4096), newPipe(t, r, 1, far, 4096)
	a.arm()
	b.arm()
	allocations := testing.AllocsPerRun(100, func() {
		a.send(64)
		for b.received == b.consumed {
			_ = r.Submit()
			for c, ok := r.Next(); ok; c, ok = r.Next() {
				if c.Data>>32 == dataSend>>32 {
					continue
				}
				_ = b.stream.Received(int(c.Result))
				b.received += int(c.Result)
			}
		}
		b.consume(b.received - b.consumed)
	})
	require.Zero(t, allocations)
}
