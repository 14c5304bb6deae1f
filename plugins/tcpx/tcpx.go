package tcpx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"transportbench/core/transport"
)

// Driver opens the tcpx transport.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: name, Version: version,
		Summary:      "requests in chunks over striped TCP sockets, into bounce pages and unpacked",
		Providers:    modeNames(),
		Capabilities: capabilities,
		Limits:       transport.Limits{MaxPayload: maxPayload, Peers: maxPeers},
		Options:      schema,
	}
}

// Open implements [transport.Driver].
func (Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	r, err := open(cfg)
	if err != nil {
		return nil, transport.NewOpError(name, "open", err)
	}
	return r, nil
}

func open(cfg transport.Config) (*rank, error) {
	s, err := resolve(cfg)
	if err != nil {
		return nil, err
	}
	if s.unpack == unpackNone {
		return nil, refuse("unpack", "none leaves payloads in bounce memory, where nobody reads them; it is for `transportbench micro tcpx`")
	}
	if err := s.mode.available(s); err != nil {
		return nil, err
	}
	if s.autoNote != "" && cfg.Logger != nil {
		cfg.Logger.Info("tcpx: mode auto took " + s.autoNote)
	}
	limit, unlimited := lockable()
	if err := s.checkLocked(max(cfg.Workers, 1), limit, unlimited); err != nil {
		return nil, err
	}
	return &rank{settings: s, workers: make([]*worker, cfg.Workers)}, nil
}

func opError(op string, id transport.PeerID, err error) error {
	return &transport.OpError{Transport: name, Op: op, Peer: id, Err: err}
}

// rank is the transport of one process.
type rank struct {
	settings *settings

	mu      sync.Mutex
	workers []*worker
	closed  bool
}

// Properties implements [transport.Transport].
func (r *rank) Properties() transport.Properties {
	s := r.settings
	p := transport.Properties{
		Provider: s.mode.name, Capabilities: s.capabilities(), Limits: s.limits(),
		Notes: map[string]string{
			"unpack":             s.unpack,
			"congestion_control": s.congestionInForce(),
			"sockets":            fmt.Sprint(s.sockets),
			"chunk":              transport.FormatSize(int64(s.chunk)),
			"windows":            fmt.Sprintf("%d sends, %d receives", s.sendWindow, s.receiveWindow),
		},
	}
	s.describe(&p)
	return p
}

// congestionInForce is the congestion control that sockets have.
func (s *settings) congestionInForce() string {
	if s.congestion != "" {
		return s.congestion
	}
	name, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	return strings.TrimSpace(string(name)) + " (the kernel's default)"
}

// NewWorker implements [transport.Transport].
func (r *rank) NewWorker(index int) (transport.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, transport.NewOpError(name, "new worker", transport.ErrClosed)
	}
	if index < 0 || index >= len(r.workers) || r.workers[index] != nil {
		return nil, transport.NewOpError(name, "new worker", fmt.Errorf("index %d is taken or outside 0 to %d", index, len(r.workers)-1))
	}
	w, err := newWorker(r.settings, index)
	if err != nil {
		return nil, transport.NewOpError(name, "new worker", err)
	}
	r.workers[index] = w
	return w, nil
}

// Close implements [transport.Transport].
func (r *rank) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var errs []error
	for _, w := range r.workers {
		if w != nil {
			errs = append(errs, w.Close(), w.destroy())
		}
	}
	return errors.Join(errs...)
}
