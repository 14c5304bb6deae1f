package wire

import (
	"context"

	"google.golang.org/grpc"

	"transportbench/core/base/record"
)

// serviceName is the control service's name in gRPC.
const serviceName = "transportbench.Control"

// reply is the message that answers a unary call. The error of a rank travels in the message,
// because a gRPC status carries text only; a status always means that gRPC itself failed.
type reply[T any] struct {
	Value T        `json:"value"`
	Error *failure `json:"error,omitempty"`
}

// event is one message of the stream that Run sends: started at most once, then any number of
// progress messages, then the report, with the error if the run failed.
type event struct {
	Started  bool             `json:"started,omitempty"`
	Progress *record.Progress `json:"progress,omitempty"`
	Report   *record.Report   `json:"report,omitempty"`
	Error    *failure         `json:"error,omitempty"`
}

func (reply[T]) failed(f *failure) any { return reply[none]{Error: f} }
func (event) failed(f *failure) any    { return event{Report: new(record.Report), Error: f} }

// none is the argument or result of a call that has none.
type none struct{}

// serviceDesc describes the control service. Its methods are those of record.Control, preceded
// by Describe.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("Describe", (*Server).describe),
		unary("Prepare", (*Server).prepare),
		unary("Connect", (*Server).connect),
		unary("Overhead", (*Server).overhead),
		unary("Probe", (*Server).probe),
		unary("Advance", (*Server).advance),
		unary("Close", (*Server).close),
	},
	Streams: []grpc.StreamDesc{runStream},
}

// runStream describes the stream of a run, for both ends.
var runStream = grpc.StreamDesc{
	StreamName:    "Run",
	ServerStreams: true,
	Handler: func(server any, stream grpc.ServerStream) error {
		var window record.Window
		if err := stream.RecvMsg(&window); err != nil {
			return err
		}
		return server.(*Server).run(window, stream)
	},
}

// method returns the full name of a service's method, as gRPC calls it.
func method(service, name string) string { return "/" + service + "/" + name }

// unary describes a method that handle implements. The servers have no interceptors.
func unary[Server, Request, Value any](
	name string, handle func(Server, context.Context, Request) (Value, error),
) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(server any, ctx context.Context, decode func(any) error,
			_ grpc.UnaryServerInterceptor) (any, error) {
			var request Request
			if err := decode(&request); err != nil {
				return nil, err
			}
			value, err := handle(server.(Server), ctx, request)
			return reply[Value]{value, encodeFailure(err, 0)}, nil
		},
	}
}
