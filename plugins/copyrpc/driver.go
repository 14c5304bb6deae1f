package copyrpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/core"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
	"transportbench/core/fabric/rdma/perftest"
	"transportbench/core/fabric/rdma/rdmaperf"
	"transportbench/core/transport"
)

const name = control.Name("copyrpc")

// Driver opens the copyrpc transport.
type Driver struct{}

var (
	_ transport.Driver           = Driver{}
	_ transport.Microbenchmarker = Driver{}
)

var capabilities = transport.Capabilities{Ordered: true, Waits: true, TellsPeerLost: true}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: string(name), Version: core.Version,
		Summary: "rings on RDMA WRITE WITH IMMEDIATE, over verbs or a software device",
		Choose: "for small calls to few peers with RDMA: one write carries all calls " +
			"of a batch",
		Groups:       []transport.Group{transport.GroupRDMA, transport.GroupMemory},
		Providers:    []string{string(rdma.Verbs), string(rdma.Soft)},
		Capabilities: capabilities,
		Limits:       transport.Limits{MaxPayload: maxPayload, Peers: maxPeers},
		Needs:        transport.Needs{WorkerFiles: 3, PeerFiles: 3},
		Options:      schema,
		References:   perftest.References("ib_write"),
		Roles:        transport.Roles{Provider: "provider", Device: "device"},
	}
}

// openDevice is replaced by tests.
var openDevice = devices.Open

// Open implements [transport.Driver].
func (Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	s, err := resolve(cfg)
	if err != nil {
		return nil, name.Error("open", err)
	}
	device, err := openDevice(s.device)
	if err != nil {
		return nil, name.Error("open", err)
	}
	e := &endpoint{settings: s, device: device, workers: control.NewWorkers[*worker](name,
		cfg.Workers), stop: make(chan struct{})}
	if err := e.checkDevice(); err != nil {
		return nil, name.Error("open", errors.Join(err, device.Close()))
	}
	if reason := device.Attributes().Fallback; reason != "" && cfg.Logger != nil {
		cfg.Logger.Warn("copyrpc: no RDMA device; taking the soft provider", "reason", reason)
	}
	e.ticking.Go(e.tick)
	return e, nil
}

// Microbenchmarks implements [transport.Microbenchmarker].
func (Driver) Microbenchmarks() []string { return rdmaperf.Names() }

// postlist is the number of requests that the -postlist measurements post at once.
const postlist = 16

// Microbenchmark implements [transport.Microbenchmarker]. It measures the RDMA device
// that the options name, without the transport.
func (Driver) Microbenchmark(ctx context.Context, options transport.Values,
	wanted func(string) bool, d time.Duration, report func(transport.Measurement) error) error {
	s, err := resolve(transport.Config{Options: options})
	if err != nil {
		return name.Error("micro", err)
	}
	o := rdmaperf.Options{Device: s.device, MTU: s.connect.MTU, Inline: s.inline,
		Postlist: min(postlist, s.sendDepth/2), Depth: s.sendDepth, Duration: d}
	return name.Error("micro", rdmaperf.Run(ctx, o, wanted, report))
}

// endpoint is the open transport of one process: the device and its workers.
type endpoint struct {
	settings settings
	device   rdma.Device
	workers  *control.Workers[*worker]

	ticks   atomic.Uint32 // keepalive intervals so far; workers compare it with seenTicks
	stop    chan struct{}
	ticking sync.WaitGroup
	mu      sync.Mutex
	open    []*worker // for tick
}

// ReadStats implements [transport.StatsReader].
func (e *endpoint) ReadStats(dst []transport.Stat) []transport.Stat {
	return e.device.ReadStats(dst)
}

// checkDevice checks the settings against the device's limits.
func (e *endpoint) checkDevice() error {
	a, s := e.device.Attributes(), &e.settings
	switch {
	case s.connect.MTU > a.MTU:
		return &transport.OptionError{Option: "mtu",
			Problem: fmt.Sprintf("%d exceeds the %d of %s port %d", s.connect.MTU, a.MTU,
				a.Name, a.Port)}
	case s.sendDepth > a.MaxSendDepth:
		return &transport.OptionError{Option: "send-depth",
			Problem: fmt.Sprintf("%d exceeds the %d of %s", s.sendDepth, a.MaxSendDepth, a.Name)}
	case s.peers+1 > a.MaxQueuePairs:
		return fmt.Errorf("%w: %d peers per worker, but %s has %d queue pairs",
			transport.ErrUnsupported, s.peers, a.Name, a.MaxQueuePairs)
	case s.receives() > a.MaxShared:
		return &transport.OptionError{Option: "batches",
			Problem: fmt.Sprintf("%d for each of %d peers need %d receives, but a shared receive "+
				"queue of %s has at most %d",
				s.batches, s.peers, s.receives(), a.Name, a.MaxShared)}
	case s.completions() > a.MaxCompletions:
		return &transport.OptionError{Option: "batches",
			Problem: fmt.Sprintf(
				"%d for each of %d peers need a completion queue of %d, but %s has at most %d",
				s.batches, s.peers, s.completions(), a.Name, a.MaxCompletions)}
	}
	return e.checkInline()
}

// checkInline makes a queue pair because only that shows which inline size is granted.
func (e *endpoint) checkInline() error {
	cq, err := e.device.NewCompletionQueue(1)
	if err != nil {
		return err
	}
	srq, err := e.device.NewSharedReceiveQueue(1)
	if err != nil {
		return errors.Join(err, cq.Close())
	}
	c := rdma.QueuePairConfig{Type: rdma.ReliableConnected, Completions: cq, Shared: srq,
		SendDepth: 1, MaxInline: e.settings.inline}
	if e.settings.pairs == pairsDC {
		c.Type = rdma.DynamicallyConnected
	}
	qp, err := e.device.NewQueuePair(c)
	switch {
	case errors.Is(err, rdma.ErrInvalid) && e.settings.pairs == pairsDC:
		err = transport.Unavailable("queue-pairs=dc: %w", err)
	case errors.Is(err, rdma.ErrInvalid):
		err = &transport.OptionError{Option: "inline", Problem: err.Error()}
	case err == nil:
		err = qp.Close()
	}
	return errors.Join(err, srq.Close(), cq.Close())
}

// Properties implements [transport.Transport].
func (e *endpoint) Properties() transport.Properties {
	a, s := e.device.Attributes(), &e.settings
	p := transport.Properties{
		Provider: string(a.Provider), Medium: transport.MediumMemory, Capabilities: capabilities,
		Limits: s.limits(), Libraries: a.Libraries,
		Notes: map[string]string{"device": fmt.Sprintf("%s port %d", a.Name, a.Port),
			"link": a.Link, "credit": s.credit, "queue_pairs": s.pairs,
			"ring": transport.FormatSize(int64(s.ring)), "mtu": fmt.Sprint(a.MTU)},
	}
	if s.device.Provider == rdma.Auto {
		p.Chosen = map[string]string{"provider": string(a.Provider)}
	}
	p.Integrity = "none"
	if a.Provider == rdma.Verbs {
		p.Medium = transport.MediumVerbs
		p.Integrity = "the device's checksum of each packet (ICRC)"
		p.Uncounted = "libibverbs"
		p.Reference = perftest.Device(a.Path())
		p.Notes["gid"] = fmt.Sprintf("%s (index %d)", a.GID, a.GIDIndex)
		if s.device.Provider == rdma.Auto {
			p.Notes[transport.NoteAuto] = fmt.Sprintf("verbs because port %d of %s is up",
				a.Port, a.Name)
		}
	} else if a.Fallback != "" {
		p.Notes[transport.NoteAuto] = "soft because verbs are " + a.Fallback
	}
	return p
}

// NewWorker implements [transport.Transport].
func (e *endpoint) NewWorker(index int) (transport.Worker, error) {
	w, err := e.workers.New(index, func() (*worker, error) { return newWorker(e) })
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = append(e.open, w.(*worker))
	return w, nil
}

// Close implements [transport.Transport].
func (e *endpoint) Close() error {
	return e.workers.Close(func(workers []*worker) error {
		close(e.stop)
		e.ticking.Wait()
		return errors.Join(control.Each(workers, (*worker).Close), e.device.Close())
	})
}
