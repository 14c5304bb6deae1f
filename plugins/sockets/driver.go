package sockets

import (
	"context"
	"errors"

	"transportbench/core"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// Driver opens the sockets transport.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: string(name), Version: core.Version,
		Summary:      "length-prefixed messages over one plain stream socket per peer",
		Choose:       "as the baseline, or if only the kernel's sockets are available",
		Groups:       []transport.Group{transport.GroupSockets},
		Providers:    networkNames(),
		Capabilities: capabilities,
		Limits: transport.Limits{MaxPayload: maxPayload, InFlight: maxInFlight,
			Peers: maxPeers},
		Needs:   transport.Needs{WorkerFiles: 3, PeerFiles: 1},
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
	p := transport.Properties{
		Provider: s.network.name, Medium: s.network.medium, Capabilities: capabilities,
		Integrity: s.network.integrity,
		Limits:    transport.Limits{MaxPayload: s.payload, InFlight: s.inFlight, Peers: maxPeers},
		Notes: map[string]string{"engine": s.engine,
			"buffer": transport.FormatSize(int64(s.buffer))},
	}
	if s.network.medium == transport.MediumTCP {
		p.Notes["congestion_control"] = sock.CongestionInForce(s.sock.Congestion)
	}
	return p
}

// NewWorker implements [transport.Transport].
func (e *endpoint) NewWorker(index int) (transport.Worker, error) {
	return e.workers.New(index, func() (*worker, error) { return newWorker(e.settings, index) })
}

// Close implements [transport.Transport].
func (e *endpoint) Close() error {
	return e.workers.Close(func(workers []*worker) error {
		return control.Each(workers, func(w *worker) error {
			return errors.Join(w.Close(), w.destroy())
		})
	})
}
