package wire

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

// agentService is the name of the service with which a coordinator starts and ends ranks on another
// host. It calls them over the control service, on the same connection.
const agentService = "transportbench.Agent"

// PluginRequest names a plugin on another host: the agent looks in its own directories for the file
// transport-NAME with exactly this digest.
type PluginRequest struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// LaunchRequest asks an agent to start one rank.
type LaunchRequest struct {
	PluginRequest
	Rank              int           `json:"rank"`
	AllowMixedRuntime bool          `json:"allow_mixed_runtime,omitempty"`
	StartTimeout      time.Duration `json:"start_timeout"`
	LogLevel          slog.Level    `json:"log_level"`
}

// Launched identifies a rank that an agent has started, among all that it starts.
type Launched struct {
	ID string `json:"id"`
}

// PatienceRequest asks an agent when a rank has used up its time.
type PatienceRequest struct {
	ID    string        `json:"id"`
	Limit time.Duration `json:"limit"`
}

// Agent is what an agent does for a coordinator.
type Agent interface {
	// Describe returns a plugin's description as JSON.
	Describe(ctx context.Context, request PluginRequest) ([]byte, error)
	Launch(ctx context.Context, request LaunchRequest) (Launched, error)
	// Await returns once the rank's process is gone.
	Await(ctx context.Context, id string) error
	Kill(ctx context.Context, id string) error
	// UsesUp returns once the rank has used limit of its own time, as [machine.UsesUp] measures it.
	UsesUp(ctx context.Context, request PatienceRequest) error
	// State reads the machine's state for some processors.
	State(ctx context.Context, cpus []int) (machine.State, error)
	// Witness takes a step of a reference tool. Request and answer are the JSON of
	// core/lab/experiment/witness.
	Witness(ctx context.Context, request []byte) ([]byte, error)
	// Path takes a step of the measurement of the network between two hosts. Request and answer are
	// the JSON of core/lab/experiment/hosts/path.
	Path(ctx context.Context, request []byte) ([]byte, error)
	// End says that the run is over and the connection will end.
	End(ctx context.Context) error
	// Logs calls send with what the plugins log, until ctx ends.
	Logs(ctx context.Context, send func(text string) error) error
	// Rank returns the control service of a rank.
	Rank(id string) (*Server, error)
}

var agentDesc = grpc.ServiceDesc{
	ServiceName: agentService,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("Describe", Agent.Describe),
		unary("Launch", Agent.Launch),
		unary("Await", withoutValue(Agent.Await)),
		unary("Kill", withoutValue(Agent.Kill)),
		unary("UsesUp", withoutValue(Agent.UsesUp)),
		unary("State", Agent.State),
		unary("Witness", Agent.Witness),
		unary("Path", Agent.Path),
		unary("End", withoutValue(func(a Agent, ctx context.Context, _ none) error {
			return a.End(ctx)
		})),
	},
	Streams: []grpc.StreamDesc{logStream},
}

// withoutValue returns handle as a method that answers with an error alone.
func withoutValue[Request any](handle func(Agent, context.Context, Request) error) func(Agent,
	context.Context, Request) (none, error) {
	return func(a Agent, ctx context.Context, r Request) (none, error) {
		return none{}, handle(a, ctx, r)
	}
}

var logStream = grpc.StreamDesc{
	StreamName:    "Logs",
	ServerStreams: true,
	Handler: func(server any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&none{}); err != nil {
			return err
		}
		return server.(Agent).Logs(stream.Context(),
			func(text string) error { return stream.SendMsg(text) })
	},
}

// rankKey is the metadata of a call of the control service that has the rank's ID.
const rankKey = "transportbench-rank"

// RegisterAgent adds the service of an agent, and the control service of its ranks.
func RegisterAgent(registrar grpc.ServiceRegistrar, agent Agent) {
	registrar.RegisterService(&agentDesc, agent)
	find := func(ctx context.Context) (*Server, error) {
		ids := metadata.ValueFromIncomingContext(ctx, rankKey)
		if len(ids) != 1 {
			return nil, errors.New("the call names no rank")
		}
		return agent.Rank(ids[0])
	}
	desc := serviceDesc
	desc.Methods, desc.Streams = slices.Clone(desc.Methods), slices.Clone(desc.Streams)
	for i, m := range serviceDesc.Methods {
		desc.Methods[i].Handler = func(_ any, ctx context.Context, decode func(any) error,
			interceptor grpc.UnaryServerInterceptor) (any, error) {
			server, err := find(ctx)
			if err != nil {
				return reply[none]{Error: encodeFailure(err, 0)}, nil
			}
			return m.Handler(server, ctx, decode, interceptor)
		}
	}
	for i, s := range serviceDesc.Streams {
		desc.Streams[i].Handler = func(_ any, stream grpc.ServerStream) error {
			server, err := find(stream.Context())
			if err != nil {
				return err
			}
			return s.Handler(server, stream)
		}
	}
	registrar.RegisterService(&desc, agent)
}

// rankConn is a connection to an agent for the calls of one of its ranks.
type rankConn struct {
	grpc.ClientConnInterface
	id string
}

func (c rankConn) Invoke(ctx context.Context, method string, args, reply any,
	opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(metadata.AppendToOutgoingContext(ctx, rankKey, c.id),
		method, args, reply, opts...)
}

func (c rankConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(metadata.AppendToOutgoingContext(ctx, rankKey, c.id),
		desc, method, opts...)
}

// AgentClient is the coordinator's end of an agent's service.
type AgentClient struct{ client *Client }

// NewAgentClient returns a client of the agent at the other end of conn. lost is as for
// [NewClient].
func NewAgentClient(conn grpc.ClientConnInterface, lost func(error) error) *AgentClient {
	c := NewClient(conn, lost)
	c.service = agentService
	return &AgentClient{c}
}

// Rank returns a client of a rank that the agent has started.
func (c *AgentClient) Rank(id string, lost func(error) error) record.Control {
	return NewClient(rankConn{c.client.conn, id}, lost)
}

// CallAgent calls the method of [Agent] with that name and returns its value, or the agent's own
// error. A method without a request or a value has struct{} there.
func CallAgent[Value any](ctx context.Context, c *AgentClient, name string, request any) (Value,
	error) {
	return call[Value](ctx, c.client, name, request)
}

// logSize bounds a message of Logs, in bytes. It is longer than what an agent sends.
const logSize = 128 << 10

// Logs calls handle with what the agent's plugins log, until the connection or ctx ends.
func (c *AgentClient) Logs(ctx context.Context, handle func(text string)) error {
	options := append(c.client.options(), grpc.MaxCallRecvMsgSize(logSize))
	stream, err := c.client.conn.NewStream(ctx, &logStream, method(agentService, "Logs"),
		options...)
	if err == nil {
		err = stream.SendMsg(none{})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	for err == nil {
		var text string
		if err = stream.RecvMsg(&text); err == nil {
			handle(text)
		}
	}
	return c.client.statusError(ctx, "Logs", err)
}
