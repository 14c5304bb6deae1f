package grpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	gogrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"transportbench/core/transport"
)

// connected returns a worker and its only peer's, connected, for payloads of 1 KiB.
func connected(t *testing.T, options string) (a, b *worker) {
	return connectedFor(t, options, 1<<10)
}

func connectedFor(t *testing.T, options string, payload int) (a, b *worker) {
	var workers []*worker
	for range 2 {
		tr, w, err := openWith(options, payload, 4)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		workers = append(workers, w)
	}
	a, b = workers[0], workers[1]
	require.NoError(t, a.Connect(context.Background(), 0, b.Address()))
	require.NoError(t, b.Connect(context.Background(), 0, a.Address()))
	return a, b
}

// event polls until there is an event or an error.
func event(t *testing.T, w *worker) (e transport.Event, err error) {
	events := make([]transport.Event, 1)
	require.Eventually(t, func() bool {
		n := 0
		n, err = w.Poll(events)
		return n > 0 || err != nil
	}, time.Minute, 50*time.Microsecond)
	return events[0], err
}

// roundTrip makes a call from a to b.
func roundTrip(t *testing.T, a, b *worker) {
	n, err := a.Post([]transport.Op{{Kind: transport.OpCall, Token: 7, Payload: []byte("ping")}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, a.Flush())
	request, err := event(t, b)
	require.NoError(t, err)
	require.Equal(t, transport.EventRequest, request.Kind)
	n, err = b.Post([]transport.Op{{Kind: transport.OpReply, Peer: request.Peer,
		Token: request.Token}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, b.Flush())
	response, err := event(t, a)
	require.NoError(t, err)
	require.Equal(t, transport.EventResponse, response.Kind)
}

// TestStrangers connects without the token, or says nothing. The peers go on, and no more sockets
// than maxStrange stay open.
func TestStrangers(t *testing.T) {
	for _, options := range []string{"", "tls=true", "network=unix calls=unary"} {
		t.Run(options, func(t *testing.T) {
			a, b := connected(t, options)
			at, err := decodeAddress(a.Address())
			require.NoError(t, err)
			dial := func() net.Conn {
				c, err := net.Dial(a.settings.network, at.At)
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			for range maxStrange + 8 {
				dial()
			}
			wrong := dial()
			_, err = wrong.Write(append(appendPreface(nil, bytes.Repeat([]byte{1}, tokenSize), 1),
				"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"...))
			require.NoError(t, err)
			_, err = wrong.Read(make([]byte, 1))
			require.Error(t, err, "the worker closes the connection and sends nothing")
			require.Eventually(t, func() bool { return a.door.strangers.Load() > 8 }, time.Minute,
				time.Millisecond)
			a.door.mu.Lock()
			require.LessOrEqual(t, len(a.door.strange), maxStrange)
			a.door.mu.Unlock()
			roundTrip(t, a, b)
			roundTrip(t, b, a)
		})
	}
}

// tap passes the first connection on to a TCP address, and returns what it has carried there.
func tap(t *testing.T, to string) (at string, recorded func() []byte) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var mu sync.Mutex
	var said bytes.Buffer
	go func() {
		from, err := l.Accept()
		if err != nil {
			return
		}
		defer from.Close()
		c, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer c.Close()
		go func() { _, _ = io.Copy(from, c) }()
		for b := make([]byte, 1<<12); ; {
			n, err := from.Read(b)
			mu.Lock()
			said.Write(b[:n])
			mu.Unlock()
			if _, failed := c.Write(b[:n]); err != nil || failed != nil {
				return
			}
		}
	}()
	return l.Addr().String(), func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Clone(said.Bytes())
	}
}

// TestReplay sends again all that a peer has sent: the worker closes the connection and sees no
// call.
func TestReplay(t *testing.T) {
	for _, options := range []string{"", "calls=unary"} {
		t.Run(options, func(t *testing.T) {
			var workers []*worker
			for range 2 {
				tr, w, err := openWith(options, 1<<10, 4)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, tr.Close()) })
				workers = append(workers, w)
			}
			victim, peer := workers[0], workers[1]
			peer.nonce = 0 // it dials
			own, err := decodeAddress(peer.Address())
			require.NoError(t, err)
			own.Nonce = 0
			require.NoError(t, victim.Connect(context.Background(), 0, own.encode()))
			at, err := decodeAddress(victim.Address())
			require.NoError(t, err)
			direct := at.At
			var recorded func() []byte
			at.At, recorded = tap(t, direct)
			require.NoError(t, peer.Connect(context.Background(), 0, at.encode()))
			roundTrip(t, peer, victim)

			said := recorded()
			require.Contains(t, string(said), "ping")
			before := victim.door.strangers.Load()
			c, err := net.Dial("tcp", direct)
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Write(said)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				n, err := victim.Poll(make([]transport.Event, 1))
				require.NoError(t, err)
				require.Zero(t, n)
				return victim.door.strangers.Load() > before
			}, 10*time.Second, time.Millisecond)
			roundTrip(t, peer, victim)
			roundTrip(t, victim, peer)
		})
	}
}

// TestImpostor has the token of a worker, but not the certificate of the peer whose nonce it uses.
func TestImpostor(t *testing.T) {
	tr, victim, err := openWith("tls=true", 1<<10, 4)
	require.NoError(t, err)
	defer tr.Close()
	honest, peer, err := openWith("tls=true", 1<<10, 4)
	require.NoError(t, err)
	defer honest.Close()
	other, impostor, err := openWith("tls=true", 1<<10, 4)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, victim.Connect(context.Background(), 0, peer.Address()))
	impostor.nonce = peer.nonce
	s := dialStream(t, impostor, victim)
	require.ErrorContains(t, s.RecvMsg(new(message)), "certificate")
}

// TestWrongCertificate dials a worker that has not the certificate of its address.
func TestWrongCertificate(t *testing.T) {
	tr, w, err := openWith("tls=true", 1<<10, 4)
	require.NoError(t, err)
	defer tr.Close()
	other, dialling, err := openWith("tls=true connect-timeout=200ms", 1<<10, 4)
	require.NoError(t, err)
	defer other.Close()
	a, err := decodeAddress(w.Address())
	require.NoError(t, err)
	// the smaller nonce dials
	a.Certificate, dialling.nonce = dialling.certificate.Certificate[0], 0
	require.NoError(t, dialling.Connect(context.Background(), 0, a.encode()))
	e, err := event(t, dialling)
	require.NoError(t, err)
	require.Equal(t, transport.EventPeerLost, e.Kind)
	require.ErrorContains(t, dialling.Silence(0), "connect-timeout")
}

// dial returns a client of a worker to another as Connect makes it, for messages of any kind.
func dial(t *testing.T, from, to *worker) *gogrpc.ClientConn {
	a, err := decodeAddress(to.Address())
	require.NoError(t, err)
	client, err := from.dial(a, func(ctx context.Context) (net.Conn, error) {
		return dialSocket(ctx, from.settings.network, a.At)
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// dialStream opens the stream of a worker to another.
func dialStream(t *testing.T, from, to *worker) gogrpc.ClientStream {
	client := dial(t, from, to)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	s, err := client.NewStream(ctx, &streamDesc, streamMethod, gogrpc.WaitForReady(true))
	require.NoError(t, err)
	return s
}

// frame returns a slot with these bytes.
func frame(k kind, token uint64, payload []byte) *slot {
	s := new(slot)
	s.fill(k, token, payload)
	return s
}

// TestHostilePeer sends what no peer sends: Poll returns ErrCorrupt, then the loss, and other peers
// go on.
func TestHostilePeer(t *testing.T) {
	for name, frames := range map[string][]*slot{
		"kind":          {frame(kindLost, 0, nil)},
		"short":         {frame(0, 0, []byte("x"))},
		"too long":      {frame(kindCall, 0, make([]byte, 1<<10+1))},
		"reply to none": {frame(kindReply, 0, nil)},
		"too many calls": {frame(kindCall, 0, nil), frame(kindCall, 1, nil),
			frame(kindCall, 2, nil), frame(kindCall, 3, nil), frame(kindCall, 4, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connected(t, "")
			tr, hostile, err := openWith("", 1<<10, 4)
			require.NoError(t, err)
			defer tr.Close()
			hostile.nonce = 0 // it dials
			address, err := decodeAddress(hostile.Address())
			require.NoError(t, err)
			address.Nonce = 0
			require.NoError(t, a.Connect(context.Background(), 1, address.encode()))
			s := dialStream(t, hostile, a)
			for _, f := range frames {
				require.NoError(t, s.SendMsg(f))
			}
			requireCorrupt(t, a, 1)
			roundTrip(t, a, b)
		})
	}
}

// requireCorrupt polls until ErrCorrupt and then the loss of a peer.
func requireCorrupt(t *testing.T, w *worker, id transport.PeerID) {
	for {
		e, err := event(t, w)
		if err != nil {
			require.ErrorIs(t, err, transport.ErrCorrupt)
			break
		}
		require.Equal(t, transport.EventRequest, e.Kind)
	}
	e, err := event(t, w)
	require.NoError(t, err)
	require.Equal(t, transport.Event{Kind: transport.EventPeerLost, Peer: id}, e)
}

// TestHostileCalls makes unary calls that no peer makes: Poll returns ErrCorrupt, then the loss,
// and other peers go on.
func TestHostileCalls(t *testing.T) {
	for name, c := range map[string]struct{ calls, size int }{
		"too many calls": {calls: 5}, "too long": {calls: 1, size: 1<<10 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connected(t, "calls=unary")
			client := dial(t, knownCaller(t, a), a)
			ctx, cancel := context.WithCancel(context.Background())
			var group sync.WaitGroup
			defer group.Wait()
			defer cancel()
			for range c.calls {
				group.Go(func() {
					_ = client.Invoke(ctx, callMethod, frame(0, 0, make([]byte, c.size)),
						new(message), gogrpc.WaitForReady(true))
				})
			}
			requireCorrupt(t, a, 1)
			roundTrip(t, a, b)
		})
	}
}

// knownCaller returns a worker that the other knows as its peer 1, and that does not know the
// other.
func knownCaller(t *testing.T, w *worker) *worker {
	tr, caller, err := openWith("calls=unary", 1<<10, 4)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	require.NoError(t, w.Connect(context.Background(), 1, caller.Address()))
	return caller
}

// TestCancelledCalls gives up calls before and after Poll returns them. The worker may answer them,
// and serves further calls of the peer.
func TestCancelledCalls(t *testing.T) {
	a, b := connected(t, "calls=unary")
	client := dial(t, knownCaller(t, a), a)
	answer := func(e transport.Event) {
		n, err := a.Post([]transport.Op{{Kind: transport.OpReply, Peer: e.Peer, Token: e.Token,
			Payload: []byte("pong")}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, a.Flush())
	}
	invoke := func(ctx context.Context) chan error {
		done := make(chan error, 1)
		go func() {
			done <- client.Invoke(ctx, callMethod, frame(0, 0, []byte("ping")), new(message),
				gogrpc.WaitForReady(true))
		}()
		return done
	}
	for i := range 8 { // more than the calls in flight
		ctx, cancel := context.WithCancel(context.Background())
		done := invoke(ctx)
		var request transport.Event
		poll := func() {
			var err error
			request, err = event(t, a)
			require.NoError(t, err)
			require.Equal(t, transport.EventRequest, request.Kind)
		}
		if i%2 == 0 {
			poll()
		} else {
			require.Eventually(t, func() bool {
				return a.peers.Get(1).waiting[kindCall-1].Load() == 1
			}, time.Minute, time.Millisecond)
		}
		cancel()
		require.Equal(t, codes.Canceled, status.Code(<-done))
		if i%2 != 0 {
			poll()
		}
		answer(request)
	}
	done := invoke(context.Background())
	request, err := event(t, a)
	require.NoError(t, err)
	answer(request)
	require.NoError(t, <-done)
	roundTrip(t, a, b)
}

// TestLongReply answers a unary call with more than was agreed, by a byte or by more than grpc-go
// takes.
func TestLongReply(t *testing.T) {
	for _, size := range []int{1<<10 + 1, 1 << 16} {
		a, b := connected(t, "calls=unary")
		address, err := decodeAddress(a.Address())
		require.NoError(t, err)
		serveAs(t, a, address, nil, func(context.Context) *slot {
			return frame(0, 0, make([]byte, size))
		})
		require.NoError(t, a.Connect(context.Background(), 1, address.encode()))
		n, err := a.Post([]transport.Op{{Kind: transport.OpCall, Peer: 1}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, a.Flush())
		if size <= a.settings.messageLimit() {
			requireCorrupt(t, a, 1)
		} else { // grpc-go refuses it
			e, err := event(t, a)
			require.NoError(t, err)
			require.Equal(t, transport.Event{Kind: transport.EventPeerLost, Peer: 1}, e)
		}
		roundTrip(t, a, b)
	}
}

// TestCopies: Post copies a message once, and the codec copies what comes in several frames or as
// protobuf.
func TestCopies(t *testing.T) {
	for codec, c := range map[string]struct{ sent, small, large uint64 }{
		codecRaw: {sent: 1, large: 1}, codecProtobuf: {sent: 2, small: 1, large: 2},
	} {
		a, b := connectedFor(t, "codec="+codec, 40<<10)
		copies := func(w *worker) (n uint64) {
			for _, s := range w.ReadStats(nil) {
				if s.Name == transport.StatCopies {
					n = s.Value
				}
			}
			return n
		}
		for size, received := range map[int]uint64{8: c.small, 40 << 10: c.large} {
			atA, atB := copies(a), copies(b)
			n, err := a.Post([]transport.Op{{Kind: transport.OpCall, Payload: make([]byte, size)}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.NoError(t, a.Flush())
			_, err = event(t, b)
			require.NoError(t, err)
			require.Equal(t, c.sent, copies(a)-atA)
			require.Equal(t, received, copies(b)-atB)
		}
	}
}

// TestLateStream opens the stream of a peer that the worker has given up: it is refused.
func TestLateStream(t *testing.T) {
	a, _ := connected(t, "")
	tr, late, err := openWith("", 1<<10, 4)
	require.NoError(t, err)
	defer tr.Close()
	late.nonce = 0 // it dials
	address, err := decodeAddress(late.Address())
	require.NoError(t, err)
	address.Nonce = 0
	require.NoError(t, a.Connect(context.Background(), 1, address.encode()))
	a.peers.Get(1).fail(errors.New("given up"))
	require.Equal(t, codes.Unavailable, status.Code(dialStream(t, late, a).RecvMsg(new(message))))
}

// TestWatchOfReadyConnection: a peer whose connection is up before watch looks is up.
func TestWatchOfReadyConnection(t *testing.T) {
	a, b := connected(t, "calls=unary")
	roundTrip(t, a, b)
	p := &peer{worker: a, client: a.peers.Get(0).client}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.watch() }()
	require.Eventually(t, p.up.Load, 10*time.Second, time.Millisecond)
	p.cancel(nil)
	<-done
}

// TestLentReplies: a peer within its calls is served while grpc-go has the memory of earlier
// replies, and a call more than agreed is refused.
func TestLentReplies(t *testing.T) {
	r := newRequests(2)
	for range 8 {
		answer := make(chan *slot, 1)
		handle, ok := r.open(answer)
		require.True(t, ok)
		require.True(t, r.reply(handle, []byte("reply")))
		require.False(t, r.reply(handle, nil), "a handle is used once")
		require.Equal(t, 1, r.flush())
		require.True(t, (<-answer).posted.Load()) // and nobody calls Put
	}
	for range 2 {
		_, ok := r.open(make(chan *slot, 1))
		require.True(t, ok)
	}
	_, ok := r.open(make(chan *slot, 1))
	require.False(t, ok)
}

// TestLentCalls: Post takes as many calls as agreed although grpc-go has the memory of earlier
// ones.
func TestLentCalls(t *testing.T) {
	c := newCallers(2)
	for range 3 {
		require.True(t, c.post(1, nil))
		require.True(t, c.post(2, nil))
		require.False(t, c.post(3, nil))
		// the responses have come, and nobody calls Put
		c.free, c.dirty = append(c.free, c.dirty...), c.dirty[:0]
	}
}

// TestRoomForAll: with all calls and replies on their way, and one more slot that grpc-go has not
// given back, there was room for each.
func TestRoomForAll(t *testing.T) {
	const inFlight = 4
	o := newOutbox(inFlight, true)
	o.slots[0].posted.Store(true)
	o.next = 1
	for i := range uint64(inFlight) {
		require.True(t, o.post(kindCall, i, nil))
		require.True(t, o.post(kindReply, i, nil))
	}
	require.False(t, o.post(kindCall, 0, nil))
}

// TestFirstMessageWhileSending: a stream's first message comes while SendMsg waits for room.
// grpc-go gives back the memory of that message too.
func TestFirstMessageWhileSending(t *testing.T) {
	const size = 32 << 10
	tr, w, err := openWith("stream-window=64KiB connection-window=64KiB", size, 8)
	require.NoError(t, err)
	defer tr.Close()
	full, first := make(chan struct{}), make(chan struct{})
	address, err := decodeAddress(w.Address())
	require.NoError(t, err)
	serveAs(t, w, address, func(s gogrpc.ServerStream) error {
		if err := s.SendHeader(nil); err != nil {
			return err
		}
		<-full
		if err := s.SendMsg(frame(kindCall, 0, nil)); err != nil {
			return err
		}
		<-first
		for s.RecvMsg(new(message)) == nil {
		}
		return nil
	}, nil)
	require.NoError(t, w.Connect(context.Background(), 0, address.encode()))
	call := transport.Op{Kind: transport.OpCall, Payload: make([]byte, size)}
	// the window and the quota have room for four
	n, err := w.Post([]transport.Op{call, call, call, call, call})
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.NoError(t, w.Flush())
	out := w.peers.Get(0).out
	require.Eventually(t, func() bool { return !out.slots[4].ready.Load() }, time.Minute,
		time.Millisecond)
	close(full)
	e, err := event(t, w)
	require.NoError(t, err)
	require.Equal(t, transport.EventRequest, e.Kind)
	close(first)
	for i := range n {
		require.Eventually(t, func() bool { return !out.slots[i].posted.Load() }, 10*time.Second,
			time.Millisecond, "slot %d", i)
	}
}

// serveAs makes a peer of address, which serves the streams and calls of a worker.
func serveAs(t *testing.T, w *worker, address *address, handler func(gogrpc.ServerStream) error,
	call func(context.Context) *slot) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address.At, address.Nonce = l.Addr().String(), math.MaxUint64 // the smaller nonce dials
	d := &door{Listener: l}
	server := gogrpc.NewServer(w.settings.serverOptions(&acceptor{token: w.token, door: d})...)
	desc := streamDesc
	desc.Handler = func(_ any, s gogrpc.ServerStream) error { return handler(s) }
	server.RegisterService(&gogrpc.ServiceDesc{
		ServiceName: serviceName, HandlerType: (*any)(nil), Streams: []gogrpc.StreamDesc{desc},
		Methods: []gogrpc.MethodDesc{{MethodName: "Call", Handler: func(_ any, ctx context.Context,
			decode func(any) error, _ gogrpc.UnaryServerInterceptor) (any, error) {
			return call(ctx), decode(new(message))
		}}},
	}, nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve(d) }()
	t.Cleanup(func() { server.Stop(); require.NoError(t, <-served) })
}

func TestAddress(t *testing.T) {
	a := address{Layout: "tcp+stream+raw+plain", At: "127.0.0.1:1", Nonce: 1, InFlight: 1,
		Token: make([]byte, tokenSize)}
	back, err := decodeAddress(a.encode())
	require.NoError(t, err)
	require.Equal(t, a, *back)
	for _, b := range []string{"", "{}", "null", `{"at":"x","in_flight":1,"token":"AA=="}`,
		`{"more":1}`, string(make([]byte, maxAddress+1))} {
		_, err := decodeAddress([]byte(b))
		require.Error(t, err, b)
	}
	tr, w, err := openWith("", 64, 4)
	require.NoError(t, err)
	defer tr.Close()
	a.Layout = "tcp+unary+raw+plain"
	require.ErrorContains(t, w.Connect(context.Background(), 0, a.encode()),
		"open all ranks with the same")
}

// FuzzPreface: only the token and the magic make a preface, and its nonce is read back.
func FuzzPreface(f *testing.F) {
	token := bytes.Repeat([]byte{7}, tokenSize)
	f.Add(appendPreface(nil, token, 9))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		nonce, err := parsePreface(b, token)
		if err == nil {
			require.Equal(t, b, appendPreface(nil, token, nonce))
		}
	})
}

// FuzzFrame: a frame that is taken has a header and is not too long, and reads as it was written.
func FuzzFrame(f *testing.F) {
	f.Add(frame(kindCall, 1, []byte("x")).data)
	f.Add(frame(0, 0, make([]byte, 17)).data) // a unary call that is too long
	encoded, err := (codec{protobuf: true}).Marshal(frame(0, 0, []byte("x")))
	require.NoError(f, err)
	f.Add(encoded.Materialize())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, token, payload, err := parseFrame(b, 16)
		if err == nil {
			require.LessOrEqual(t, len(payload), 16)
			require.Equal(t, b, frame(k, token, payload).data)
		}
		m := new(message)
		if (codec{protobuf: true}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m) == nil {
			require.LessOrEqual(t, len(m.bytes), len(b))
		}
	})
}
