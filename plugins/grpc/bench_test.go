package grpc

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	gogrpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// The benchmarks compare this package with grpc-go as the fastest program would use it: two
// processes over TCP, with grpc-go's default options, as this package has them. Goroutines call
// SendMsg, RecvMsg and Invoke themselves. The codec is this package's, which copies nothing, and
// all messages are one slot that is filled before.

const (
	plainServer = "plain"
	benchSize   = 64
	benchDepth  = 64
)

// filled returns a slot with a message of the benchmarks.
func filled() *slot { return frame(0, 0, make([]byte, benchSize)) }

// plainStream is the handler of a stream that answers each message.
func plainStream(_ any, s gogrpc.ServerStream) error {
	_, err := echo(s, filled())
	return err
}

// servePlain answers until it is killed.
func servePlain(p *fabrictest.Parent) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := p.Send(l.Addr().String()); err != nil {
		return err
	}
	s := gogrpc.NewServer(gogrpc.ForceServerCodecV2(codec{}))
	out := filled()
	s.RegisterService(&gogrpc.ServiceDesc{
		ServiceName: "plain", HandlerType: (*any)(nil),
		Streams: []gogrpc.StreamDesc{{StreamName: "Stream", ServerStreams: true,
			ClientStreams: true, Handler: plainStream}},
		Methods: []gogrpc.MethodDesc{{MethodName: "Call",
			Handler: func(_ any, _ context.Context, decode func(any) error,
				_ gogrpc.UnaryServerInterceptor) (any, error) {
				in := newMessage(nil, 0)
				defer in.release()
				return out, decode(in)
			}}},
	}, nil)
	return s.Serve(l)
}

// plain makes calls without this package.
func plain(b *testing.B, unary bool, depth int) {
	var address string
	fabrictest.Start(b, plainServer, nil).Receive(&address)
	client, err := gogrpc.NewClient(address,
		gogrpc.WithTransportCredentials(insecure.NewCredentials()),
		gogrpc.WithDefaultCallOptions(gogrpc.ForceCodecV2(codec{})))
	require.NoError(b, err)
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := filled()
	if unary {
		invoke := func() error {
			in := newMessage(nil, 0)
			defer in.release()
			return client.Invoke(ctx, "/plain/Call", out, in, gogrpc.WaitForReady(true))
		}
		require.NoError(b, invoke())
		b.ResetTimer()
		for range b.N {
			if err := invoke(); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	s, err := client.NewStream(ctx, &gogrpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/plain/Stream", gogrpc.WaitForReady(true))
	require.NoError(b, err)
	send := func() {
		if err := s.SendMsg(out); err != nil {
			panic(err)
		}
	}
	receive := func() {
		in := newMessage(nil, 0)
		if err := s.RecvMsg(in); err != nil {
			panic(err)
		}
		in.release()
	}
	send()
	receive()
	b.ResetTimer()
	if depth == 1 {
		for range b.N {
			send()
			receive()
		}
		return
	}
	// One goroutine sends and one receives: with one for both, a call took half as long again.
	credits := make(chan struct{}, depth)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for range b.N {
			receive()
			<-credits
		}
	}()
	for range b.N {
		credits <- struct{}{}
		send()
	}
	<-finished
}

// adapted makes calls with this package.
func adapted(b *testing.B, options string, depth int) {
	_, w := connectProcess(b, options)
	call := []transport.Op{{Kind: transport.OpCall, Payload: make([]byte, benchSize)}}
	events := make([]transport.Event, benchDepth)
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	run := func(calls int) {
		for posted, answered := 0, 0; answered < calls; {
			for posted < calls && posted-answered < depth {
				n, err := w.Post(call)
				check(err)
				if n == 0 {
					break
				}
				posted++
			}
			check(w.Flush())
			n, err := w.Poll(events)
			check(err)
			if answered += n; n == 0 {
				check(w.Wait(time.Millisecond))
			}
		}
	}
	run(1)
	b.ResetTimer()
	run(b.N)
}

func BenchmarkStream(b *testing.B) {
	b.Run("plain", func(b *testing.B) { plain(b, false, 1) })
	b.Run("grpc", func(b *testing.B) { adapted(b, "", 1) })
}

func BenchmarkUnary(b *testing.B) {
	b.Run("plain", func(b *testing.B) { plain(b, true, 1) })
	b.Run("grpc", func(b *testing.B) { adapted(b, "calls=unary", 1) })
}

func BenchmarkPipelined(b *testing.B) {
	b.Run("plain", func(b *testing.B) { plain(b, false, benchDepth) })
	b.Run("grpc", func(b *testing.B) { adapted(b, "", benchDepth) })
}
