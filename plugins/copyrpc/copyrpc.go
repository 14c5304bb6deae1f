package copyrpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// Driver opens the copyrpc transport.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver]. The capabilities are those of both
// providers; verbs are one-sided and reach other hosts besides.
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: name, Version: version,
		Summary:      "rings on RDMA WRITE WITH IMMEDIATE, over verbs or a software device",
		Providers:    []string{string(rdma.Verbs), string(rdma.Soft)},
		Capabilities: capabilities(rdma.Soft),
		Limits:       transport.Limits{MaxPayload: maxPayload, Peers: maxPeers},
		Options:      schema,
	}
}

func capabilities(p rdma.Provider) transport.Capabilities {
	return transport.Capabilities{
		Ordered:       true,
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
	device, err := rdma.Open(s.device)
	if err != nil {
		return nil, transport.NewOpError(name, "open", err)
	}
	r := &rank{settings: s, device: device, workers: make([]*worker, cfg.Workers), stop: make(chan struct{})}
	if err := r.fit(); err != nil {
		return nil, transport.NewOpError(name, "open", errors.Join(err, device.Close()))
	}
	if s.device.Provider == rdma.Auto && r.provider() == rdma.Soft && cfg.Logger != nil {
		cfg.Logger.Warn("copyrpc: no RDMA device; taking the soft provider", "reason", r.whySoft())
	}
	r.ticking.Go(r.tick)
	return r, nil
}

// rank is the transport of one process.
type rank struct {
	settings settings
	device   rdma.Device
	ticks    atomic.Uint32 // grows once a keepalive; workers look at it
	stop     chan struct{}
	ticking  sync.WaitGroup

	mu      sync.Mutex
	workers []*worker
	closed  bool

	notifiersMu sync.Mutex
	notifiers   []rdma.Notifier // of the workers, for tick
}

func (r *rank) provider() rdma.Provider { return r.device.Attributes().Provider }

// whySoft says why auto did not take verbs.
func (r *rank) whySoft() string {
	if missing := rdma.VerbsUnavailable(); missing != "" {
		return missing
	}
	_, err := rdma.Open(rdma.Options{Provider: rdma.Verbs, GIDIndex: rdma.AnyGID})
	return fmt.Sprint(err)
}

// fit checks the settings against the device, before anything is made.
func (r *rank) fit() error {
	a, s := r.device.Attributes(), &r.settings
	switch {
	case s.connect.MTU > a.MTU:
		return &transport.OptionError{Option: "mtu", Problem: fmt.Sprintf("%d is over the %d of %s port %d", s.connect.MTU, a.MTU, a.Name, a.Port)}
	case s.depth > a.MaxSendDepth:
		return &transport.OptionError{Option: "send-depth", Problem: fmt.Sprintf("%d is over the %d of %s", s.depth, a.MaxSendDepth, a.Name)}
	case s.peers+1 > a.MaxQueuePairs:
		return fmt.Errorf("%w: %d peers of one worker, and %s has %d queue pairs", transport.ErrUnsupported, s.peers, a.Name, a.MaxQueuePairs)
	case s.receives() > a.MaxShared:
		return &transport.OptionError{Option: "batches", Problem: fmt.Sprintf("%d on their way to each of %d peers want %d receives, and %s has %d in a shared queue",
			s.batches, s.peers, s.receives(), a.Name, a.MaxShared)}
	case s.completions() > a.MaxCompletions:
		return &transport.OptionError{Option: "batches", Problem: fmt.Sprintf("%d for each of %d peers want a completion queue of %d, and %s has %d",
			s.batches, s.peers, s.completions(), a.Name, a.MaxCompletions)}
	}
	return r.tryInline()
}

// tryInline makes a queue pair, since only that tells what inline size is granted.
func (r *rank) tryInline() error {
	cq, err := r.device.NewCompletionQueue(1)
	if err != nil {
		return err
	}
	qp, err := r.device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected, Completions: cq, SendDepth: 1, ReceiveDepth: 1, MaxInline: r.settings.inline})
	switch {
	case errors.Is(err, rdma.ErrInvalid):
		err = &transport.OptionError{Option: "inline", Problem: err.Error()}
	case err == nil:
		err = qp.Close()
	}
	return errors.Join(err, cq.Close())
}

// receives is how many receives a worker posts: one for each batch that may be on
// its way and for a farewell, and half of that again, so that there are enough
// whenever less than a third is gone.
func (s *settings) receives() int { return s.peers * (s.batches + 2) * 3 / 2 }

// completions covers every receive and every request that asks for one.
func (s *settings) completions() int { return s.receives() + s.peers*(s.depth+2) }

func (r *rank) Properties() transport.Properties {
	a, s := r.device.Attributes(), &r.settings
	p := transport.Properties{
		Provider: string(a.Provider), Capabilities: capabilities(a.Provider), Limits: s.limits(), Libraries: a.Libraries,
		Notes: map[string]string{"device": fmt.Sprintf("%s port %d", a.Name, a.Port), "link": a.Link, "credit": s.credit,
			"ring": transport.FormatSize(int64(s.ring)), "mtu": fmt.Sprint(a.MTU)},
	}
	if a.Provider == rdma.Verbs {
		p.Notes["gid"] = fmt.Sprintf("%s (index %d)", a.GID, a.GIDIndex)
	} else if s.device.Provider == rdma.Auto {
		p.Notes["auto"] = "soft, since verbs are " + r.whySoft()
	}
	return p
}

// tick wakes up seldom, to tell workers that time has passed.
func (r *rank) tick() {
	t := time.NewTicker(r.settings.keepalive)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			r.ticks.Add(1)
			r.notifiersMu.Lock()
			for _, b := range r.notifiers {
				b.Notify() // who waits may have a peer to try
			}
			r.notifiersMu.Unlock()
		case <-r.stop:
			return
		}
	}
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
	w, err := newWorker(r)
	if err != nil {
		return nil, transport.NewOpError(name, "new worker", err)
	}
	r.workers[index] = w
	r.notifiersMu.Lock()
	r.notifiers = append(r.notifiers, w.notifier)
	r.notifiersMu.Unlock()
	return w, nil
}

func (r *rank) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	close(r.stop)
	r.ticking.Wait()
	var errs []error
	for _, w := range r.workers {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	return errors.Join(append(errs, r.device.Close())...)
}
