package devices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
)

// suite configures the tests.
type suite struct {
	// Open opens the device; each side of a test calls it.
	Open func() (rdma.Device, error)
	// Connect are the options of connections.
	Connect rdma.ConnectOptions
	// Impatient are the options of connections whose peer goes away. They set how soon that
	// is detected; the zero value is 2 ms.
	Impatient rdma.ConnectOptions
	// Timeout limits each wait; 0 is 30 seconds.
	Timeout time.Duration
}

// runSuite runs every test as a subtest of t.
func runSuite(t *testing.T, s suite) {
	if s.Timeout == 0 {
		s.Timeout = 30 * time.Second
	}
	if s.Impatient == (rdma.ConnectOptions{}) {
		s.Impatient = rdma.ConnectOptions{Timeout: 8, Retries: 1, MTU: s.Connect.MTU}
	}
	for _, group := range [][]test{connectedTests, errorTests, datagramTests, dynamicTests,
		notifierTests, deviceTests} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) { c.run(t, &s) })
		}
	}
}

type test struct {
	name string
	run  func(*testing.T, *suite)
}

// side is an open device with the objects that a test needs.
type side struct {
	t        *testing.T
	suite    *suite
	device   rdma.Device
	cq       rdma.CompletionQueue
	notifier rdma.Notifier           // nil unless setup.notifier
	srq      rdma.SharedReceiveQueue // nil unless setup.shared
	qp       rdma.QueuePair
	memory   *rdma.Region
	queue    []rdma.Completion // polled, not consumed by the test yet
}

// setup configures the sides. Zero values are defaults.
type setup struct {
	kind     rdma.QueuePairType
	shared   bool
	memory   int
	access   rdma.Access
	connect  rdma.ConnectOptions
	separate bool // leave the sides unconnected
	notifier bool
}

const (
	depth      = 64
	memorySize = 2 << 20
	allAccess  = rdma.RemoteRead | rdma.RemoteWrite | rdma.RemoteAtomic
	inlineSize = 64
	qkey       = 0x1111
)

func (c setup) complete(s *suite) setup {
	if c.kind == 0 {
		c.kind = rdma.ReliableConnected
	}
	if c.memory == 0 {
		c.memory = memorySize
	}
	if c.access == 0 {
		c.access = allAccess
	}
	if c.connect == (rdma.ConnectOptions{}) {
		c.connect = s.Connect
	}
	return c
}

func (s *suite) side(t *testing.T, c setup) *side {
	device, err := s.Open()
	require.NoError(t, err, "opening the device")
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	x := &side{t: t, suite: s, device: device}
	x.cq, err = device.NewCompletionQueue(4 * depth)
	require.NoError(t, err)
	if c.notifier {
		x.notifier, err = device.NewNotifier(x.cq)
		require.NoError(t, err)
	}
	config := rdma.QueuePairConfig{Type: c.kind, Completions: x.cq, SendDepth: depth,
		ReceiveDepth: depth,
		MaxInline:    inlineSize, Cookie: 7, QKey: qkey}
	if c.shared {
		x.srq, err = device.NewSharedReceiveQueue(depth)
		require.NoError(t, err)
		config.Shared = x.srq
	}
	x.qp, err = device.NewQueuePair(config)
	require.NoError(t, err)
	x.memory, err = device.Allocate(c.memory, c.access)
	require.NoError(t, err)
	return x
}

// pair makes two sides, connected unless c says otherwise.
func (s *suite) pair(t *testing.T, c setup) (a, b *side) {
	c = c.complete(s)
	a, b = s.side(t, c), s.side(t, c)
	if c.kind == rdma.ReliableConnected && !c.separate {
		require.NoError(t, a.qp.Connect(b.qp.Endpoint(), c.connect))
		require.NoError(t, b.qp.Connect(a.qp.Endpoint(), c.connect))
	}
	return a, b
}

// receive posts n receives of length bytes each, with memory from offset on.
func (x *side) receive(n, offset, length int) {
	for i := range n {
		r := rdma.ReceiveRequest{ID: uint64(1000 + i)}
		if length > 0 {
			r.Local, r.Length, r.LocalKey = x.memory.Address+uint64(offset+i*length),
				uint32(length), x.memory.LocalKey
		}
		var posted int
		var err error
		if x.srq != nil {
			posted, err = x.srq.PostReceive([]rdma.ReceiveRequest{r})
		} else {
			posted, err = x.qp.PostReceive([]rdma.ReceiveRequest{r})
		}
		require.NoError(x.t, err, "posting receive %d", i)
		require.Equal(x.t, 1, posted)
	}
}

// request returns a signaled request with local memory at offset.
func (x *side) request(opcode rdma.Opcode, id uint64, offset, length int) rdma.SendRequest {
	return rdma.SendRequest{ID: id, Opcode: opcode, Flags: rdma.Signaled,
		Local: x.memory.Address + uint64(offset), Length: uint32(length),
		LocalKey: x.memory.LocalKey}
}

// toward returns r with y's memory at offset as its target.
func toward(r rdma.SendRequest, y *side, offset int) rdma.SendRequest {
	r.Remote, r.RemoteKey = y.memory.Remote.Address+uint64(offset), y.memory.Remote.Key
	return r
}

func (x *side) post(requests ...rdma.SendRequest) {
	n, err := x.qp.PostSend(requests)
	require.NoError(x.t, err, "posting %d requests", len(requests))
	require.Equal(x.t, len(requests), n, "requests posted")
}

// poll polls once.
func (x *side) poll() {
	var completions [16]rdma.Completion
	n, err := x.cq.Poll(completions[:])
	require.NoError(x.t, err, "polling")
	x.queue = append(x.queue, completions[:n]...)
}

// until polls the sides until done returns true. All sides poll because a device may make
// progress only then.
func until(what string, done func() bool, sides ...*side) {
	x := sides[0]
	x.t.Helper()
	for deadline := time.Now().Add(x.suite.Timeout); !done(); {
		if time.Now().After(deadline) {
			require.FailNow(x.t, "timeout", "waiting for %s", what)
		}
		for _, y := range sides {
			y.poll()
		}
	}
}

// next waits for a completion of x, while y polls too.
func (x *side) next(y *side) rdma.Completion {
	x.t.Helper()
	until("a completion", func() bool { return len(x.queue) > 0 }, x, y)
	c := x.queue[0]
	x.queue = x.queue[1:]
	require.EqualValues(x.t, 7, c.QueuePair, "the cookie of a completion")
	return c
}

// succeed waits for a completion and checks that it is a success.
func (x *side) succeed(y *side, id uint64, opcode rdma.Opcode) rdma.Completion {
	x.t.Helper()
	c := x.next(y)
	require.Equal(x.t, rdma.StatusOK, c.Status, "status of request %d", c.ID)
	require.Equal(x.t, id, c.ID, "the request that completes")
	switch opcode { // completions do not distinguish these
	case rdma.WriteWithImmediate:
		opcode = rdma.Write
	case rdma.SendWithImmediate:
		opcode = rdma.Send
	}
	require.Equal(x.t, opcode, c.Opcode, "the opcode that completes")
	return c
}

// quiet checks that nothing completes on either side.
func quiet(x, y *side) {
	x.t.Helper()
	for range 200 {
		x.poll()
		y.poll()
	}
	require.Empty(x.t, x.queue, "completions of the first side")
	require.Empty(x.t, y.queue, "completions of the second side")
}

// fill writes the pattern of a seed.
func fill(memory []byte, seed int) {
	for i := range memory {
		memory[i] = byte(seed*31 + i*7 + i>>8)
	}
}

// pattern returns what fill writes.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	fill(b, seed)
	return b
}

func (x *side) bytes(offset, n int) []byte { return x.memory.Bytes[offset : offset+n] }
