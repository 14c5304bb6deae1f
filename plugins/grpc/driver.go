package grpc

import (
	"context"

	gogrpc "google.golang.org/grpc"

	"transportbench/core"
	"transportbench/core/fabric/control"
	"transportbench/core/transport"
)

// Driver opens the grpc transport.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: string(name), Version: core.Version,
		Summary: "gRPC (grpc-go) over TCP or Unix sockets, streams or unary calls",
		Choose: "for services whose clients, tools and TLS are gRPC's, if 100 us a call is " +
			"acceptable",
		Groups:       []transport.Group{transport.GroupSockets},
		Providers:    []string{networkTCP, networkUnix},
		Capabilities: capabilities,
		Limits: transport.Limits{MaxPayload: maxPayload, InFlight: maxInFlight,
			Peers: maxPeers},
		Needs:   transport.Needs{WorkerFiles: 4, PeerFiles: 2},
		Options: schema,
		Roles:   transport.Roles{Provider: "network", Address: "address"},
	}
}

// Open implements [transport.Driver].
func (Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	s, err := resolve(cfg)
	if err != nil {
		return nil, name.Error("open", err)
	}
	return &endpoint{settings: s, workers: control.NewWorkers[*worker](name, cfg.Workers)}, nil
}

// endpoint is the transport of one rank.
type endpoint struct {
	settings *settings
	workers  *control.Workers[*worker]
}

// Properties implements [transport.Transport].
func (e *endpoint) Properties() transport.Properties {
	s := e.settings
	return transport.Properties{
		Provider: s.network, Medium: s.medium(), Capabilities: s.capabilities(), Limits: s.limits(),
		Libraries: map[string]string{"grpc-go": gogrpc.Version},
		Notes:     s.notes(),
		Integrity: s.integrity(),
		Uncounted: "grpc-go",
	}
}

// NewWorker implements [transport.Transport].
func (e *endpoint) NewWorker(index int) (transport.Worker, error) {
	return e.workers.New(index, func() (*worker, error) { return newWorker(e.settings) })
}

// Close implements [transport.Transport].
func (e *endpoint) Close() error {
	return e.workers.Close(func(workers []*worker) error {
		return control.Each(workers, (*worker).Close)
	})
}
