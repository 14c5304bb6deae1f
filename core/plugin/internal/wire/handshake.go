package wire

import (
	"context"
	"errors"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// ProtocolVersion is the version of the control protocol and of the output of `describe`. The
// fields of the messages need no version: both ends link the same core/base/record, which the
// runtime digest checks unless --allow-mixed-runtime is set. Version 1 carried the messages in
// protobuf.
const ProtocolVersion = 2

// Variables that a host sets for a plugin, beside go-plugin's own.
const (
	// EnvParent is the descriptor of a pipe whose other end the host holds; it
	// reaches its end when the host is gone.
	EnvParent = "TRANSPORTBENCH_PARENT_FD"
	// EnvLogLevel is the lowest level worth logging, as slog spells it.
	EnvLogLevel = "TRANSPORTBENCH_LOG_LEVEL"
)

// Handshake is what go-plugin compares at both ends. The cookie is no secret: it tells a plugin
// that a host started it and not a user.
var Handshake = goplugin.HandshakeConfig{
	ProtocolVersion:  ProtocolVersion,
	MagicCookieKey:   "TRANSPORTBENCH_PLUGIN",
	MagicCookieValue: "c5b1e6e0a4c64f6c9a5f5c3f0b8d2e71",
}

// ServiceName is the one thing that a plugin dispenses.
const ServiceName = "rank"

// Plugin is the go-plugin side of the service.
type Plugin struct {
	goplugin.NetRPCUnsupportedPlugin
	Control *Server // nil in the host
}

var _ goplugin.GRPCPlugin = (*Plugin)(nil)

// GRPCServer registers the service in the plugin's process.
func (p *Plugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	if p.Control == nil {
		return errors.New("this end has no rank to serve")
	}
	p.Control.Register(s)
	return nil
}

// GRPCClient returns the host's connection; the host makes its own [Client].
func (p *Plugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any,
	error) {
	return conn, nil
}
