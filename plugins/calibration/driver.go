package calibration

import (
	"context"
	"errors"
	"sync"

	"transportbench/core"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// Driver opens the transport with a known cost.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: name, Version: core.Version, Instrument: true,
		Summary:      "shm with known delays, limits, stalls and faults, to calibrate the tool",
		Choose:       "to check what this tool can see; it is no candidate for use",
		Groups:       []transport.Group{transport.GroupMemory},
		Providers:    []string{string(shm.Memfd)},
		Capabilities: inbox.Capabilities,
		Limits: transport.Limits{MaxPayload: inbox.MaxPayload,
			InlineSize: ring.InlineSize, Peers: inbox.MaxPeers},
		Options: schema,
	}
}

// Open implements [transport.Driver].
func (Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	in, err := resolve(cfg.Options)
	if err != nil {
		return nil, transport.NewOpError(name, "open", err)
	}
	sound, err := inbox.Open(inboxConfig(cfg))
	if err != nil {
		return nil, err
	}
	return &endpoint{Transport: sound, config: cfg, injection: in}, nil
}

// endpoint is an inbox.Transport whose workers inject.
type endpoint struct {
	*inbox.Transport
	config    transport.Config
	injection injection

	mu      sync.Mutex
	workers []*worker
}

// NewWorker implements [transport.Transport].
func (e *endpoint) NewWorker(index int) (transport.Worker, error) {
	sound, err := e.Transport.NewWorker(index)
	if err != nil {
		return nil, err
	}
	seed := uint64(e.config.Rank)<<32 | uint64(index)
	w, err := newWorker(sound.(soundWorker), e.injection, seed, e.Properties().Limits.MaxPayload,
		e.config.InFlight*e.config.Peers)
	if err != nil {
		return nil, transport.NewOpError(name, "new worker", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.workers = append(e.workers, w)
	return w, nil
}

// Close implements [transport.Transport].
func (e *endpoint) Close() error {
	errs := []error{e.Transport.Close()}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.workers {
		errs = append(errs, w.held.close())
		if w.detour != nil {
			errs = append(errs, w.detour.close())
		}
	}
	return errors.Join(errs...)
}
