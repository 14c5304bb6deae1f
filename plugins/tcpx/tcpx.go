package tcpx

import (
	"context"
	"errors"
	"fmt"

	"transportbench/core"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

// Driver opens the tcpx transport.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: string(name), Version: core.Version,
		Summary:      "requests in chunks over striped TCP sockets, into bounce pages and unpacked",
		Choose:       "for large payloads over TCP, into the memory of a GPU or of the host",
		Groups:       []transport.Group{transport.GroupGPU, transport.GroupSockets},
		Providers:    bounce.Modes(),
		Capabilities: capabilities,
		Limits: transport.Limits{MaxPayload: maxPayload, InFlight: maxInFlight,
			Peers: maxPeers},
		Needs:   transport.Needs{WorkerFiles: 4, PeerFiles: 2},
		Options: schema,
		Roles:   transport.Roles{Device: "interface", Address: "address", Streams: "sockets"},
	}
}

// Open implements [transport.Driver].
func (Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	t, err := open(cfg)
	if err != nil {
		return nil, name.Error("open", err)
	}
	return t, nil
}

func open(cfg transport.Config) (*endpoint, error) {
	s, err := resolve(cfg)
	if err != nil {
		return nil, err
	}
	if s.memory.Unpack == bounce.UnpackNone {
		return nil, refuse("unpack", "none leaves payloads in bounce memory, where no worker "+
			"reads them; use it with `transportbench micro tcpx`")
	}
	if err := s.memory.Available(); err != nil {
		return nil, err
	}
	if s.memory.AutoNote != "" && cfg.Logger != nil {
		cfg.Logger.Info("tcpx: mode auto took " + s.memory.AutoNote)
	}
	limit, unlimited := lockable()
	if err := s.checkLocked(max(cfg.Workers, 1), limit, unlimited); err != nil {
		return nil, err
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
		Provider: s.memory.Mode(), Medium: transport.MediumTCP, Capabilities: s.capabilities(),
		Limits: s.limits(),
		Notes: map[string]string{
			"unpack":             s.memory.Unpack,
			"congestion_control": sock.CongestionInForce(s.sock.Congestion),
			"sockets":            fmt.Sprint(s.sockets),
			"chunk":              transport.FormatSize(int64(s.chunk)),
			"windows": fmt.Sprintf("%d sends, %d receives", s.sendWindow,
				s.receiveWindow),
		},
	}
	if s.fault != faultNone {
		p.Notes["fault"] = s.fault
	}
	p.Chosen = map[string]string{}
	s.memory.Describe(&p)
	if s.zeroCopy == zeroCopyAuto {
		p.Chosen["zero-copy"] = zeroCopyOn
		if !s.zeroCopyTo(s.sock.Address) {
			p.Chosen["zero-copy"] = zeroCopyOff
		}
	}
	p.Integrity = "TCP's checksum"
	if s.sock.Address.IsLoopback() {
		p.Integrity = "none: the loopback computes no TCP checksum"
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
