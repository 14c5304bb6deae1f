package conn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/queue"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

// TestUnreadCredits: a peer that uses up receives and does not read their credits is refused
// before the room for credits is used up.
func TestUnreadCredits(t *testing.T) {
	config := &parse(t, nil).config
	in, err := bounce.NewPages(config.Request, 1)
	require.NoError(t, err)
	u, err := bounce.NewSlots(in, bounce.NewHost(0))
	require.NoError(t, err)
	c := New(config, 0, in, u, &Counters{})
	for i := range uint64(10_000) {
		if err = c.In.PostReceive(bounce.Buffer{}, i); err != nil {
			break
		}
		require.NoError(t, c.handle(&record{kind: recordChunk, index: uint16(i % Requests), tag: i},
			nil))
		require.NoError(t, c.In.receiveChunks())
		number := c.In.Consumed()
		_, ok, err := c.In.Consume()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, i, number)
	}
	require.ErrorIs(t, err, transport.ErrCorrupt)
	require.ErrorIs(t, c.Err, transport.ErrCorrupt, "the connection is over")
	require.True(t, c.Release(true))
	require.NoError(t, in.Close())
}

// FuzzControl: a connection accepts or refuses whatever a peer sends over the control socket,
// and keeps its invariants.
func FuzzControl(f *testing.F) {
	seed := func(records ...record) {
		var b []byte
		for _, r := range records {
			one := make([]byte, recordSize)
			r.put(one)
			b = append(b, one...)
			if r.inline() {
				b = append(b, make([]byte, r.total)...)
			}
		}
		f.Add(b)
	}
	seed(record{kind: recordCredit, size: 4096})
	seed(record{kind: recordChunk, size: 100, total: 100}, record{kind: recordCall, size: 100})
	seed(record{kind: recordChunk, size: 4096, total: 8192},
		record{kind: recordChunk, offset: 4096, size: 4096, total: 8192})
	seed(record{kind: recordCall, size: 64, total: 64}, record{kind: recordCall, offset: 1, tag: 1,
		size: 100}, record{kind: recordChunk, size: 100, total: 100})
	f.Fuzz(func(t *testing.T, said []byte) {
		config := &parse(t, map[string]string{"chunk": "4KiB", "request": "8KiB"}).config
		config.Inline, config.Messages = 64, 4
		in, err := bounce.NewPages(config.Request, 1)
		require.NoError(t, err)
		u, err := bounce.NewSlots(in, bounce.NewHost(0))
		require.NoError(t, err)
		c := New(config, 0, in, u, &Counters{})
		destination := make([]byte, Requests*config.Request)
		for i := range Requests {
			to := bounce.Buffer{Host: destination[i*config.Request:][:config.Request],
				Size: config.Request}
			err := c.In.PostReceive(to, uint64(i))
			require.NoError(t, err)
		}
		for len(said) > 0 {
			n := copy(c.control.in[c.control.filled:], said[:min(len(said), recordSize)])
			c.control.filled += n
			said = said[n:]
			if c.handleRecords() != nil {
				break
			}
			require.LessOrEqual(t, c.Out.credits.Len(), Requests)
			requireOrder(t, c)
			require.NoError(t, c.receiveWithoutLanes())
		}
		c.Err = ErrProtocol
		require.True(t, c.Release(true))
		requireAllPages(t, in, config.Request)
		require.NoError(t, in.Close())
	})
}

// receiveWithoutLanes is receiveChunks without lanes.
func (c *Conn) receiveWithoutLanes() error {
	lanes := c.lanes
	c.lanes = nil
	defer func() { c.lanes = lanes }()
	return c.In.receiveChunks()
}

// TestStream: a message has arrived when all receives that hold it are consumed, and a
// request that is not full ends with a message.
func TestStream(t *testing.T) {
	in := Receiver{conn: &Conn{config: &Config{Request: 100}}, sizes: make([]int, 4),
		requests: queue.New[receiveRequest](Requests)}
	consume := func(sizes ...int) {
		for _, size := range sizes {
			in.sizes[in.requests.First()%4] = size
			in.requests.Push()
			in.requests.Pop()
		}
	}
	arrived := func(size int) bool {
		yes, err := in.arrived(size)
		require.NoError(t, err)
		return yes
	}
	at := func(number, offset int) {
		t.Helper()
		require.Equal(t, 100*number+offset, int(in.read))
	}
	require.True(t, arrived(0), "an empty message needs no receive")
	require.False(t, arrived(1))
	consume(100)
	require.True(t, arrived(100))
	require.False(t, arrived(101))
	consume(100, 30)
	require.True(t, arrived(230))
	_, err := in.arrived(231)
	require.ErrorIs(t, err, ErrProtocol, "a message goes on behind a request that is not full")

	in.skip(99)
	at(0, 99)
	in.skip(101)
	at(2, 0)
	in.skip(30)
	at(3, 0)
	consume(100, 10)
	require.True(t, arrived(110))
	in.skip(110)
	at(5, 0)
}

// TestRingsBeginAgain: while a ring is empty, the stream goes on at its begin, and otherwise behind
// what is in it. A ring in device memory always goes on.
func TestRingsBeginAgain(t *testing.T) {
	const request = 100
	for _, host := range []bool{true, false} {
		in := Receiver{conn: &Conn{config: &Config{Request: request}}, sizes: make([]int, 4),
			requests: queue.New[receiveRequest](Requests)}
		if host {
			in.destination.Host = make([]byte, 2*4*request)
		}
		in.destination.Size = 2 * 4 * request
		arrive := func(size int) (slot int) {
			in.place(size)
			slot = int(in.launched-in.ringStart/request) % 4
			in.sizes[in.launched%4] = size
			in.launched++
			in.requests.Push()
			in.requests.Pop()
			return slot
		}
		slots := []int{arrive(request), arrive(30)} // a message of 130 bytes
		in.skip(130)
		slots = append(slots, arrive(40)) // the payload may still be read
		in.skip(40)
		in.ReleaseDelivered()
		slots = append(slots, arrive(50), arrive(10)) // two messages
		in.skip(50)
		in.ReleaseDelivered()
		slots = append(slots, arrive(20)) // the message of 10 bytes was not delivered
		if host {
			require.Equal(t, []int{0, 1, 2, 0, 1, 2}, slots)
		} else {
			require.Equal(t, []int{0, 1, 2, 3, 0, 1}, slots)
		}
	}
	s := Sender{staging: make([]byte, 2*1000), requests: queue.New[sendRequest](Requests)}
	for range 3 {
		require.True(t, s.makeRoom(600))
		require.Zero(t, s.Offset(s.end), "the ring is empty")
		s.end += 600
		require.True(t, s.makeRoom(400))
		require.EqualValues(t, 600, s.Offset(s.end), "behind 600 bytes")
		require.False(t, s.makeRoom(401))
		s.cut = s.end
	}
}
