package tcpx

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
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

// record is a control record as it travels; see package conn.
type record struct {
	Kind, Lane          uint8
	Index               uint16
	Size, Offset, Total uint32
	Tag                 uint64
}

// Kinds of records, and the reasons of a refusal.
const (
	recordCredit  = 1
	recordChunk   = 2
	recordCall    = 3
	recordReply   = 4
	recordRefusal = 5

	refusalTag       = 1
	refusalTruncated = 2
)

// lie makes a worker send records to its peer that no honest worker sends.
func lie(t *testing.T, liar *worker, records ...record) {
	t.Helper()
	for _, r := range records {
		b, err := binary.Append(nil, binary.LittleEndian, r)
		require.NoError(t, err)
		n, err := sock.SendBytes(liar.peers.Get(0).conn.ControlFD(), b)
		require.NoError(t, err)
		require.Len(t, b, n)
	}
}

// TestLies: if a peer breaks the protocol, Poll returns ErrCorrupt once and reports the loss
// once, and the worker goes on.
func TestLies(t *testing.T) {
	const request, payload = 512 << 10, 1 << 20
	chunk := record{Kind: recordChunk, Index: 0, Size: 100, Total: 100}
	with := func(r record, change func(*record)) record { change(&r); return r }
	for what, records := range map[string][]record{
		"an unknown kind":            {{Kind: 99}},
		"no kind":                    {{}},
		"a credit out of order":      {{Kind: recordCredit, Index: 5}},
		"a credit beyond the ring":   {{Kind: recordCredit}},
		"a chunk of a later request": {with(chunk, func(r *record) { r.Index = 3 })},
		"a chunk of no data socket":  {with(chunk, func(r *record) { r.Lane = 1 })},
		"a chunk that begins late":   {with(chunk, func(r *record) { r.Offset = 10 })},
		"a chunk that ends late":     {with(chunk, func(r *record) { r.Total = 99 })},
		"a chunk of nothing":         {with(chunk, func(r *record) { r.Size = 0 })},
		"another total later on": {with(chunk, func(r *record) {
			r.Size, r.Total = 4096,
				5000
		}), with(chunk, func(r *record) { r.Offset, r.Total = 4096, 6000 })},
		"a chunk that is less than pages": {with(chunk, func(r *record) { r.Total = 200 })},
		"a request larger than its room": {with(chunk,
			func(r *record) { r.Size, r.Total = request+1, request+1 })},
		"4 GiB": {with(chunk,
			func(r *record) { r.Size, r.Offset, r.Total = 1<<32-1, 0, 1<<32-1 })},
		"another tag":                      {with(chunk, func(r *record) { r.Tag = 1 })},
		"an inline message that is longer": {{Kind: recordCall, Size: 10, Total: 11}},
		"an inline message too large":      {{Kind: recordCall, Size: 4096, Total: 4096}},
		"a message out of order":           {{Kind: recordCall, Tag: 7}},
		"a message larger than the run's":  {{Kind: recordCall, Size: payload + 1}},
		"a call of no number":              {{Kind: recordCall, Offset: 4}},
		"a call twice": {{Kind: recordCall, Offset: 1},
			{Kind: recordCall, Offset: 1, Tag: 1}},
		"a reply to nothing":        {{Kind: recordReply, Offset: 0}},
		"more messages than can be": make([]record, 0),
		"a message that ends in two": {{Kind: recordCall, Size: 150}, chunk,
			with(chunk, func(r *record) { r.Index, r.Tag = 1, 1 })},
		"a refusal for a tag":             {{Kind: recordRefusal, Index: refusalTag}},
		"a refusal for its size":          {{Kind: recordRefusal, Index: refusalTruncated}},
		"a refusal for an unknown reason": {{Kind: recordRefusal, Index: 77}},
	} {
		t.Run(what, func(t *testing.T) {
			victim, liar := connectedWorkers(t,
				transport.Config{Peers: 2, InFlight: 4, MaxPayload: payload}, nil)
			if len(records) == 0 {
				for i := range uint64(100) {
					records = append(records, record{Kind: recordCall, Size: 100, Tag: i})
				}
			}
			lie(t, liar, records...)
			if what == "a message that ends in two" {
				_, err := sock.SendBytes(liar.peers.Get(0).conn.Sockets()[1], make([]byte, 200))
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
