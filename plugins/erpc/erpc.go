package erpc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// Driver opens the erpc transport.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver]. The capabilities are those of all providers.
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: name, Version: version,
		Summary:      "eRPC's protocol over unreliable datagrams: kernel UDP, or UD queue pairs",
		Providers:    []string{providerUDP, providerVerbs, providerSoft},
		Capabilities: capabilities(providerSoft),
		Limits:       transport.Limits{MaxPayload: maxMessage, Peers: maxPeers},
		Options:      schema,
	}
}

func capabilities(provider string) transport.Capabilities {
	return transport.Capabilities{
		Waits:         true,
		TellsPeerLost: true,
	}
}

// Open implements [transport.Driver].
func (Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	s, err := resolve(cfg)
	if err != nil {
		return nil, transport.NewOpError(name, "open", err)
	}
	r := &rank{settings: s, workers: make([]*worker, cfg.Workers)}
	if err := r.open(); err != nil {
		return nil, transport.NewOpError(name, "open", errors.Join(err, r.Close()))
	}
	if s.auto != "" && cfg.Logger != nil {
		cfg.Logger.Info("erpc: took provider " + s.auto)
	}
	return r, nil
}

// rank is the transport of one process.
type rank struct {
	settings settings
	source   source
	notes    map[string]string
	unit     int // bytes of data in a packet
	heart    *heart

	mu      sync.Mutex
	workers []*worker
	closed  bool
}

func (r *rank) open() error {
	var err error
	if r.source, err = openSource(&r.settings); err != nil {
		return err
	}
	port, err := r.source.port(-1)
	if err != nil {
		return err
	}
	r.unit = port.MTU() - headerSize
	r.notes = port.Notes()
	if r.heart, err = newHeart(port, r.settings.keepalive, r.settings.silence); err != nil {
		return errors.Join(err, port.Close())
	}
	switch {
	case port.MTU() < leastMTU:
		return &transport.OptionError{Option: "mtu", Problem: fmt.Sprintf("%d is below %d", port.MTU(), leastMTU)}
	case packetsOf(r.settings.payload, r.unit) > maxPackets:
		return fmt.Errorf("%w: %d bytes in packets of %d are more than %d packets; raise mtu",
			transport.ErrTooLarge, r.settings.payload, r.unit, maxPackets)
	}
	return r.settings.fits(r.source.credits(&r.settings), r.unit)
}

func (r *rank) Properties() transport.Properties {
	s := &r.settings
	p := transport.Properties{Provider: s.provider, Capabilities: capabilities(s.provider), Limits: s.limits(r.unit),
		Libraries: r.source.libraries(), Notes: map[string]string{}}
	for key, note := range r.notes {
		p.Notes[key] = note
	}
	p.Notes["credits"] = fmt.Sprintf("%d of %d", r.source.credits(s), s.credits)
	if s.timely {
		c := &s.congestion
		p.Notes["timely"] = fmt.Sprintf("link %.0f B/s, least %.0f, step %.0f; round trips %.0f us to %.0f us, least %.0f us",
			c.link, c.least, c.step, c.low/1e3, c.high/1e3, c.minRTT/1e3)
	}
	if s.auto != "" {
		p.Notes["auto"] = s.auto
	}
	return p
}

func (r *rank) NewWorker(index int) (transport.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, transport.NewOpError(name, "new worker", transport.ErrClosed)
	}
	if index < 0 || index >= len(r.workers) || r.workers[index] != nil {
		return nil, transport.NewOpError(name, "new worker", fmt.Errorf("index %d is taken or outside 0 to %d", index, len(r.workers)-1))
	}
	port, err := r.source.port(index)
	if err != nil {
		return nil, transport.NewOpError(name, "new worker", err)
	}
	w, err := newWorker(&r.settings, port, r.heart, r.source.credits(&r.settings), monotonic())
	if err != nil {
		return nil, transport.NewOpError(name, "new worker", errors.Join(err, port.Close()))
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
			errs = append(errs, w.Close(), w.release())
		}
	}
	if r.heart != nil {
		errs = append(errs, r.heart.close())
	}
	if r.source != nil {
		errs = append(errs, r.source.close())
	}
	return errors.Join(errs...)
}

// source makes a rank's ports.
type source interface {
	// port makes that of a worker, or for -1 that of the heartbeats.
	port(worker int) (datagram.Port, error)
	// credits is how many a session may have, so that what all peers send at once
	// finds room at the receiver.
	credits(*settings) int
	libraries() map[string]string
	close() error
}
