package grpc

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	gogrpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"transportbench/core/transport"
)

// The benchmarks compare this package with grpc-go as a program would use it: two processes over TCP
// with grpc-go's default options, and goroutines that call SendMsg, RecvMsg and Invoke themselves.

const (
	plainServer = "plain"
	benchSize   = 64
	benchDepth  = 64
)

// plainCodec passes byte slices.
type plainCodec struct{}

func (plainCodec) Name() string { return codecRaw }

func (plainCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (plainCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// servePlain echoes until it is killed.
func servePlain() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	s := gogrpc.NewServer(gogrpc.ForceServerCodecV2(plainCodec{}))
	s.RegisterService(&gogrpc.ServiceDesc{
		ServiceName: "plain", HandlerType: (*any)(nil),
		Streams: []gogrpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s gogrpc.ServerStream) error {
			for {
				b := new([]byte)
				if err := s.RecvMsg(b); err != nil {
					return nil
				}
				if err := s.SendMsg(b); err != nil {
					return err
				}
			}
		}}},
		Methods: []gogrpc.MethodDesc{{MethodName: "Call", Handler: func(_ any, _ context.Context, decode func(any) error, _ gogrpc.UnaryServerInterceptor) (any, error) {
			b := new([]byte)
			return b, decode(b)
		}}},
	}, nil)
	return s.Serve(l)
}

// plain makes calls without this package.
func plain(b *testing.B, unary bool, depth int) {
	_, address, _ := startServer(b, plainServer)
	client, err := gogrpc.NewClient(address, gogrpc.WithTransportCredentials(insecure.NewCredentials()),
		gogrpc.WithDefaultCallOptions(gogrpc.ForceCodecV2(plainCodec{})))
	require.NoError(b, err)
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := make([]byte, benchSize)
	if unary {
		require.NoError(b, client.Invoke(ctx, "/plain/Call", &out, new([]byte), gogrpc.WaitForReady(true)))
		for b.Loop() {
			require.NoError(b, client.Invoke(ctx, "/plain/Call", &out, new([]byte)))
		}
		return
	}
	s, err := client.NewStream(ctx, &gogrpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/plain/Stream", gogrpc.WaitForReady(true))
	require.NoError(b, err)
	send := func() { require.NoError(b, s.SendMsg(&out)) }
	receive := func() { require.NoError(b, s.RecvMsg(new([]byte))) }
	send()
	receive()
	if depth == 1 {
		for b.Loop() {
			send()
			receive()
		}
		return
	}
	// One goroutine sends and one receives, as a pipelined client does.
	credits := make(chan struct{}, depth)
	finished := make(chan error, 1)
	b.ResetTimer()
	go func() {
		for range b.N {
			if err := s.RecvMsg(new([]byte)); err != nil {
				finished <- err
				return
			}
			<-credits
		}
		finished <- nil
	}()
	for range b.N {
		credits <- struct{}{}
		send()
	}
	require.NoError(b, <-finished)
}

// adapted makes calls with this package.
func adapted(b *testing.B, options string, depth int) {
	_, w := connectProcess(b, options)
	call := []transport.Op{{Kind: transport.OpCall, Payload: make([]byte, benchSize)}}
	events := make([]transport.Event, benchDepth)
	run := func(calls int) {
		for posted, answered := 0, 0; answered < calls; {
			for posted < calls && posted-answered < depth {
				n, err := w.Post(call)
				require.NoError(b, err)
				if n == 0 {
					break
				}
				posted++
			}
			require.NoError(b, w.Flush())
			n, err := w.Poll(events)
			require.NoError(b, err)
			if answered += n; n == 0 {
				require.NoError(b, w.Wait(time.Millisecond))
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
