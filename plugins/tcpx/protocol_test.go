package tcpx

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

// connectedWorkers makes two connected workers that have each other as peer 0.
func connectedWorkers(tb testing.TB, cfg transport.Config, options map[string]string) (
	a, b *worker) {
	tb.Helper()
	a, b = openWorkers(tb, cfg, options)
	meet(tb, a, b)
	return a, b
}

// openWorkers makes two workers.
func openWorkers(tb testing.TB, cfg transport.Config, options map[string]string) (a, b *worker) {
	tb.Helper()
	values, err := transport.ParseOptions(schema, options)
	require.NoError(tb, err)
	cfg.Workers, cfg.Options = 1, values
	var workers []*worker
	for range 2 {
		tr, err := Driver{}.Open(context.Background(), cfg)
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, tr.Close()) })
		w, err := tr.NewWorker(0)
		require.NoError(tb, err)
		workers = append(workers, w.(*worker))
	}
	return workers[0], workers[1]
}

// meet connects two workers.
func meet(tb testing.TB, a, b *worker) {
	tb.Helper()
	require.NoError(tb, a.Connect(context.Background(), 0, b.Address()))
	require.NoError(tb, b.Connect(context.Background(), 0, a.Address()))
	eventually(tb, "the connection", func() bool {
		for _, w := range []*worker{a, b} {
			_, err := w.Poll(nil)
			require.NoError(tb, err)
		}
		return a.peers.Get(0).State == dial.Up && b.peers.Get(0).State == dial.Up
	})
}

// lie makes a worker send records to its peer that no honest worker sends.
func lie(liar *worker, records ...record) {
	c := liar.peers.Get(0).conn
	for _, r := range records {
		c.control.put(r)
	}
	c.control.flush()
}

// TestLies: if a peer breaks the protocol, Poll returns ErrCorrupt once and reports the loss
// once, and the worker goes on.
func TestLies(t *testing.T) {
	const request, payload = 512 << 10, 1 << 20
	chunk := record{kind: recordChunk, index: 0, size: 100, total: 100}
	with := func(r record, change func(*record)) record { change(&r); return r }
	for what, records := range map[string][]record{
		"an unknown kind":            {{kind: 99}},
		"no kind":                    {{}},
		"a credit out of order":      {{kind: recordCredit, index: 5}},
		"a credit beyond the ring":   {{kind: recordCredit}},
		"a chunk of a later request": {with(chunk, func(r *record) { r.index = 3 })},
		"a chunk of no data socket":  {with(chunk, func(r *record) { r.lane = 1 })},
		"a chunk that begins late":   {with(chunk, func(r *record) { r.offset = 10 })},
		"a chunk that ends late":     {with(chunk, func(r *record) { r.total = 99 })},
		"a chunk of nothing":         {with(chunk, func(r *record) { r.size = 0 })},
		"another total later on": {with(chunk, func(r *record) {
			r.size, r.total = 4096,
				5000
		}), with(chunk, func(r *record) { r.offset, r.total = 4096, 6000 })},
		"a chunk that is less than pages": {with(chunk, func(r *record) { r.total = 200 })},
		"a request larger than its room": {with(chunk,
			func(r *record) { r.size, r.total = request+1, request+1 })},
		"4 GiB": {with(chunk,
			func(r *record) { r.size, r.offset, r.total = 1<<32-1, 0, 1<<32-1 })},
		"another tag":                      {with(chunk, func(r *record) { r.tag = 1 })},
		"an inline message that is longer": {{kind: recordCall, size: 10, total: 11}},
		"an inline message too large":      {{kind: recordCall, size: 4096, total: 4096}},
		"a message out of order":           {{kind: recordCall, tag: 7}},
		"a message larger than the run's":  {{kind: recordCall, size: payload + 1}},
		"a call of no number":              {{kind: recordCall, offset: 4}},
		"a call twice": {{kind: recordCall, offset: 1},
			{kind: recordCall, offset: 1, tag: 1}},
		"a reply to nothing":        {{kind: recordReply, offset: 0}},
		"more messages than can be": make([]record, 0),
		"a message that ends in two": {{kind: recordCall, size: 150}, chunk,
			with(chunk, func(r *record) { r.index, r.tag = 1, 1 })},
		"a refusal for a tag":             {{kind: recordRefusal, index: refusalTag}},
		"a refusal for its size":          {{kind: recordRefusal, index: refusalTruncated}},
		"a refusal for an unknown reason": {{kind: recordRefusal, index: 77}},
	} {
		t.Run(what, func(t *testing.T) {
			victim, liar := connectedWorkers(t,
				transport.Config{Peers: 2, InFlight: 4, MaxPayload: payload}, nil)
			if len(records) == 0 {
				for i := range uint64(100) {
					records = append(records, record{kind: recordCall, size: 100, tag: i})
				}
			}
			lie(liar, records...)
			if what == "a message that ends in two" {
				_, err := sock.SendBytes(liar.peers.Get(0).conn.lanes[0].FD, make([]byte, 200))
				require.NoError(t, err)
			}
			events := make([]transport.Event, 4)
			corrupt, lost := 0, 0
			look := func() {
				n, err := victim.Poll(events)
				if err != nil {
					require.ErrorIs(t, err, transport.ErrCorrupt)
					corrupt++
				}
				for _, e := range events[:n] {
					if e.Kind == transport.EventPeerLost {
						lost++
					}
				}
			}
			eventually(t, "the loss", func() bool { look(); return lost > 0 })
			for range 1000 {
				look()
			}
			require.Equal(t, 1, corrupt, "errors of Poll")
			require.Equal(t, 1, lost, "losses reported")
			_, err := victim.Post([]transport.Op{{Kind: transport.OpCall}})
			require.ErrorIs(t, err, transport.ErrPeerDown)
		})
	}
}

// TestUnreadCredits: a peer that uses up receives and does not read their credits is refused
// before the room for credits is used up.
func TestUnreadCredits(t *testing.T) {
	s := testSettings(t, nil)
	in, err := bounce.NewPages(s.request, 1)
	require.NoError(t, err)
	u, err := bounce.NewSlots(in, bounce.NewHost(0))
	require.NoError(t, err)
	c := newConn(s, in, u, 0, &counters{})
	for i := range uint64(10_000) {
		if err = c.postReceive(bounce.Buffer{}, i); err != nil {
			break
		}
		require.NoError(t, c.handle(&record{kind: recordChunk, index: uint16(i % requests), tag: i},
			nil))
		require.NoError(t, c.receiveChunks())
		number, _, ok, err := c.consume()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, i, number)
	}
	require.ErrorIs(t, err, transport.ErrCorrupt)
	require.ErrorIs(t, c.err, transport.ErrCorrupt, "the connection is over")
	require.True(t, c.release(true))
	require.NoError(t, in.Close())
}

// TestFarewellIsNoLie: a peer that closes is lost without an error.
func TestFarewellIsNoLie(t *testing.T) {
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 100}, nil)
	require.NoError(t, b.Close())
	events := make([]transport.Event, 4)
	eventually(t, "the loss", func() bool {
		n, err := a.Poll(events)
		require.NoError(t, err)
		return n == 1 && events[0].Kind == transport.EventPeerLost
	})
}

// TestStrangers: sockets without a proper hello are closed.
func TestStrangers(t *testing.T) {
	values, err := transport.ParseOptions(schema, map[string]string{"timeout": "20ms"})
	require.NoError(t, err)
	tr, err := Driver{}.Open(context.Background(),
		transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 100, Options: values})
	require.NoError(t, err)
	defer tr.Close()
	opened, err := tr.NewWorker(0)
	require.NoError(t, err)
	w := opened.(*worker)
	a, err := w.settings.decodeAddress(w.Address())
	require.NoError(t, err)
	var stranger dial.Nonce
	_, _ = rand.Read(stranger[:])
	dataAddress := a.dataAddress(0)
	data := dial.Hello{To: w.own, From: stranger, Use: 1}
	hellos := map[string][]byte{
		"for a data socket": data.Encode(),
		"nothing":           nil,
		"a part":            greeting(stranger, w.own)[:20],
		"noise":             make([]byte, dial.HelloSize),
		"for another":       greeting(w.own, stranger),
		"and goes at once":  greeting(stranger, w.own),
	}
	fds := []int{dialledTo(t, w, dataAddress, nil),
		dialledTo(t, w, dataAddress, greeting(stranger, w.own, 1, 2, 3))}
	for what, hello := range hellos {
		fd, err := w.settings.sock.Dial(a.At)
		require.NoError(t, err)
		eventually(t, "a stranger's hello", func() bool {
			if len(hello) > 0 {
				n, err := sendHello(fd, hello)
				require.NoError(t, err)
				hello = hello[n:]
			}
			return len(hello) == 0
		})
		if what == "and goes at once" {
			require.NoError(t, unix.Close(fd))
			continue
		}
		fds = append(fds, fd)
	}
	for _, fd := range fds {
		eventually(t, "a stranger to be dropped", func() bool {
			_, err := w.Poll(nil)
			require.NoError(t, err)
			return sock.Peek(fd) != nil
		})
	}
	require.NoError(t, sock.CloseAll(fds))
	eventually(t, "no socket to be left", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return len(w.connector.Acceptor.Waiting)+len(w.connector.dataSockets) == 0
	})
}

// TestCrowdOfStrangers: workers connect and probe while strangers hold more sockets than a listener
// keeps, and close those that they do not keep.
func TestCrowdOfStrangers(t *testing.T) {
	cfg := transport.Config{Peers: 1, InFlight: 4, MaxPayload: 100}
	options := map[string]string{"timeout": "1h"}
	a, b := openWorkers(t, cfg, options)
	var fds []int
	for _, w := range []*worker{a, b} {
		at, err := w.settings.decodeAddress(w.Address())
		require.NoError(t, err)
		for range 3 * strangersHeld {
			fds = append(fds, dialledTo(t, w, at.At, []byte("?")),
				dialledTo(t, w, at.dataAddress(0), nil))
		}
	}
	meet(t, a, b)
	for _, w := range []*worker{a, b} {
		require.LessOrEqual(t, len(w.connector.Acceptor.Waiting), 2+strangersHeld)
		require.LessOrEqual(t, len(w.connector.dataSockets), 4+strangersHeld)
		eventually(t, "the strangers to be dropped",
			func() bool { w.connect(); return w.connector.Acceptor.Strangers >= 4*strangersHeld-8 })
	}
	probe := transport.Probe{Kind: transport.ProbeMedium, Duration: time.Millisecond}
	require.NoError(t, onTwoThreads(context.Background(),
		func(ctx context.Context) error {
			lead := probe
			lead.Initiate = true
			_, err := a.Probe(ctx, 0, lead)
			return err
		},
		func(ctx context.Context) error {
			_, err := b.Probe(ctx, 0, probe)
			return err
		}))
	require.NoError(t, sock.CloseAll(fds))
}

// TestStrangersThatLeave: a data socket of a stranger is closed once the stranger has gone, also if
// it has sent something.
func TestStrangersThatLeave(t *testing.T) {
	a, _ := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 100},
		map[string]string{"timeout": "1h"})
	at, err := a.settings.decodeAddress(a.Address())
	require.NoError(t, err)
	fd := dialledTo(t, a, at.dataAddress(0), []byte("?"))
	eventually(t, "the stranger",
		func() bool { a.connect(); return len(a.connector.dataSockets) == 1 })
	require.NoError(t, unix.Close(fd))
	eventually(t, "the stranger to be forgotten",
		func() bool { a.connect(); return len(a.connector.dataSockets) == 0 })
}

// TestHalfConnected: a peer that closes before all of its sockets have come is lost.
func TestHalfConnected(t *testing.T) {
	w, hello := alone(t, nil)
	fd := dialled(t, w, hello)
	eventually(t, "the socket to be matched", func() bool {
		n, err := w.Poll(make([]transport.Event, 1))
		require.NoError(t, err)
		require.Zero(t, n)
		return w.peers.Get(0).sockets[0] >= 0
	})
	require.NoError(t, unix.Close(fd))
	untilLost(t, w)
}

// TestProbeGivenUp: a probe that ends early returns the cause of its context.
func TestProbeGivenUp(t *testing.T) {
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 100},
		map[string]string{"sockets": "2"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := a.Probe(ctx, 0, transport.Probe{Kind: transport.ProbeMedium, Initiate: true,
		Duration: 1})
	require.ErrorIs(t, err, context.Canceled)
	_, err = b.Probe(ctx, 0, transport.Probe{Kind: transport.ProbeMedium, Duration: 1})
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
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
		s := testSettings(t, map[string]string{"chunk": "4KiB", "request": "8KiB"})
		s.inline = 64
		in, err := bounce.NewPages(s.request, 1)
		require.NoError(t, err)
		u, err := bounce.NewSlots(in, bounce.NewHost(0))
		require.NoError(t, err)
		c := newConn(s, in, u, 4, &counters{})
		destination := make([]byte, requests*s.request)
		for i := range requests {
			err := c.postReceive(bounce.Buffer{Host: destination[i*s.request:][:s.request],
				Size: s.request}, uint64(i))
			require.NoError(t, err)
		}
		for len(said) > 0 {
			n := copy(c.control.in[c.control.filled:], said[:min(len(said), recordSize)])
			c.control.filled += n
			said = said[n:]
			if c.handleRecords() != nil {
				break
			}
			require.LessOrEqual(t, c.credited-c.sendCut, uint64(requests))
			require.LessOrEqual(t, c.receiveBegun, c.receivePosted)
			require.LessOrEqual(t, c.receiveReserved, c.receiveBegun)
			require.NoError(t, c.receiveWithoutLanes())
		}
		c.err = errProtocol
		require.True(t, c.release(true))
		requireAllPages(t, in, s)
		require.NoError(t, in.Close())
	})
}

// receiveWithoutLanes is receiveChunks without lanes.
func (c *conn) receiveWithoutLanes() error {
	lanes := c.lanes
	c.lanes = nil
	defer func() { c.lanes = lanes }()
	return c.receiveChunks()
}

// FuzzAddress: an address that is accepted has what the code relies on.
func FuzzAddress(f *testing.F) {
	s := testSettings(f, nil)
	f.Add(
		[]byte(
			`{"nonce":"AAAAAAAAAAAAAAAAAAAAAA==","at":"127.0.0.1:1","data":["127.0.0.1:2"],"sockets":1,"chunk":524288,"request":524288,"window":16,"in_flight":1,"payload":1}`))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		a, err := s.decodeAddress(encoded)
		if err != nil {
			return
		}
		require.Len(t, a.Nonce, dial.NonceSize)
		require.Equal(t, s.sockets, a.Sockets)
		require.True(t, a.Window >= 1 && a.Window <= requests)
		require.True(t, a.At.Addr().Is4())
		require.NotZero(t, a.dataAddress(3).Port())
	})
}
