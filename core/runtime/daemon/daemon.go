package daemon

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// Daemon is one serving thread: a worker, the part of the store that it owns, and in
// mesh-proxied the links of its rank's clients. daemon_datapath.go has its loop, and proxy.go
// its work for those clients.
type Daemon struct {
	cfg     config.Config
	rank    int
	idle    loop.Idler
	clock   *machine.Clock
	service loop.Service
	batch   bool      // requests of a poll are answered together, see Step
	store   *kv.Store // nil unless the service is the store
	Sink    kv.Sink

	worker  transport.Worker
	events  []transport.Event
	out     outbox // replies to peers, and forwarded calls of local clients
	headers [][kv.HeaderSize]byte
	next    int // in headers, circular

	proxy      *proxy      // nil unless mesh-proxied
	delegation *delegation // nil unless the daemons of the rank delegate
	storage    *storage    // nil without delays
	device     *deviceLog  // nil unless payloads stay in device memory

	counts counts
	// atEnd is a copy of counts at the end of the window.
	atEnd counts
	start uint64
	ended bool
	// early counts the requests served before the window, which come from ranks that began earlier.
	early  uint64
	loop   loopTimer
	Gaps   loop.GapWatch
	tracer tracer
}

// counts are the counts of one window.
type counts struct {
	loops, empty, requests, flushes, backPressure         uint64
	outcomes                                              [kv.NumOutcomes]uint64 // of the requests
	window                                                uint64                 // ticks
	fromClients, local, remote, responses, incoming, held uint64                 // mesh-proxied
	// passed on to daemons of the rank, and served for them
	delegated, forSiblings uint64
	// PUTs whose value stays in device memory
	left  uint64
	store kv.Work
}

// New returns the daemon with that index within its rank, and fills its store with the
// keys that it owns.
func New(w wiring.Wiring, index int, idle string, worker transport.Worker) (*Daemon, error) {
	var store *kv.Store
	if w.Config.Service == config.ServiceStore {
		var err error
		if store, err = newStore(w, index); err != nil {
			return nil, err
		}
	}
	open := w.OpenCalls()
	serves := open
	if w.Config.Delegate {
		serves *= w.Config.Daemons
	}
	d := &Daemon{
		cfg: w.Config, rank: w.Rank, worker: worker, clock: machine.Calibrated(),
		service: loop.ServiceOf(w.Config), batch: w.Config.Service != config.ServiceSink &&
			w.Config.Flush == config.FlushLoop,
		store: store, Sink: kv.Sink{VerifyEvery: w.Config.VerifyEvery},
		events: make([]transport.Event, max(loop.MinBatch, min(open, loop.MaxBatch))),
		out:    newOutbox(worker, open),
		// One for each request of peers, clients and siblings that can be open.
		headers: make([][kv.HeaderSize]byte, serves),
		Gaps:    loop.NewGapWatch(machine.Calibrated()),
	}
	if w.Config.Stored() {
		d.storage = newStorage(d.clock, w.Config, w.Rank*w.Config.Daemons+index, serves)
	}
	d.loop = newLoopTimer(d.clock, &d.Gaps)
	d.idle = loop.NewIdler(idle, worker, &d.Gaps)
	return d, d.out.keepFor(w.Config)
}

// keepFor maps room for payloads that cannot wait for the next poll: those of an echo, and of what
// the daemons of a rank pass on to each other.
func (o *outbox) keepFor(cfg config.Config) (err error) {
	if cfg.Service != config.ServiceEcho && !cfg.Delegate {
		return nil
	}
	o.stride = cfg.LargestMessage()
	size := o.stride * cap(o.ops)
	o.kept, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf(
			"map %d bytes for replies that wait: %w; lower --in-flight or --value-size", size, err)
	}
	return nil
}

func (o *outbox) close() error {
	if o.kept == nil {
		return nil
	}
	return unix.Munmap(o.kept)
}

// newStore returns the store of one daemon of a rank, filled with the keys that it owns.
func newStore(w wiring.Wiring, index int) (*kv.Store, error) {
	cfg := w.Config
	owns := func(key uint64) bool {
		return kv.RankOf(key, cfg.ServingRanks()) == w.Rank &&
			kv.DaemonOf(key, cfg.Daemons) == index
	}
	owned := 0
	for key := range uint64(cfg.TotalKeys()) {
		if owns(key) {
			owned++
		}
	}
	store, err := kv.NewStore(max(owned, 1), cfg.ValueSize.Max())
	if err != nil {
		return nil, fmt.Errorf("make a store of %d keys: %w; lower --keys or --value-size",
			owned, err)
	}
	store.VerifyEvery = cfg.VerifyEvery
	sizeAt := workload.NewSizes(cfg.ValueSize).At
	if w.Replay != "" {
		if sizeAt, err = workload.StoredSizes(w.Replay, &cfg); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	for key := range uint64(cfg.TotalKeys()) {
		if owns(key) {
			if err := store.Fill(key, sizeAt(key)); err != nil {
				_ = store.Close()
				return nil, fmt.Errorf("fill the store: %w", err)
			}
		}
	}
	return store, nil
}

// ParkAtOnce is called for a daemon whose loop is a goroutine.
func (d *Daemon) ParkAtOnce() { d.idle.Share() }

// Idler returns what the daemon's loop does when it finds nothing.
func (d *Daemon) Idler() *loop.Idler { return &d.idle }

// ShareTrace makes the daemon stamp the calls that clients trace.
func (d *Daemon) ShareTrace(t *loop.CallTrace) { d.tracer.trace = t }

// VerifyDevice makes the daemon verify values that its worker leaves in device memory.
func (d *Daemon) VerifyDevice() (err error) {
	d.device, err = newDeviceLog(&d.cfg, d.worker)
	return err
}

// ServeLinks makes the daemon serve the clients of its rank over links, and forward calls for them.
func (d *Daemon) ServeLinks(w wiring.Wiring, links transport.Worker,
	traces []*loop.LinkTrace) error {
	d.proxy = newProxy(w, links, traces)
	return d.proxy.out.keepFor(w.Config)
}

// Delegate makes the daemon pass requests on to its siblings and serve theirs; index is its own.
func (d *Daemon) Delegate(w wiring.Wiring, index int, siblings transport.Worker) (err error) {
	d.delegation, err = newDelegation(w, index, siblings)
	return err
}

// LeaveValues makes the daemon serve requests without reading their values. With device, the values
// stay in device memory. With unread, the floor already has the time of reading them.
func (d *Daemon) LeaveValues(device, unread bool) {
	d.Sink.Unread = unread
	if device {
		d.device = &deviceLog{}
	}
}

// Requests returns the number of requests that the daemon has served in the window.
func (d *Daemon) Requests() uint64 { return d.counts.requests }

// Batch returns the mean number of requests that a poll of the last window returned, without empty
// polls; 0 if all were empty.
func (d *Daemon) Batch() float64 {
	n := &d.atEnd
	if n.loops == n.empty {
		return 0
	}
	return float64(n.requests) / float64(n.loops-n.empty)
}

// Close frees the memory of the daemon.
func (d *Daemon) Close() (err error) {
	if d.store != nil {
		err = d.store.Close()
	}
	if d.device != nil {
		err = errors.Join(err, d.device.close())
	}
	if d.proxy != nil {
		err = errors.Join(err, d.proxy.out.close())
	}
	if d.delegation != nil {
		err = errors.Join(err, d.delegation.out.close())
	}
	return errors.Join(err, d.out.close())
}

// Begin resets the records before a window.
func (d *Daemon) Begin() {
	// the window may fail before it begins to measure
	d.atEnd, d.counts, d.early, d.ended = counts{}, counts{}, 0, false
	d.loop.begin()
}

// Report returns what the daemon recorded in the window, so far if it has not ended.
func (d *Daemon) Report(thread record.ThreadReport) record.DaemonReport {
	n := &d.atEnd
	if !d.ended {
		n = &d.counts
	}
	r := record.DaemonReport{
		ElapsedNS: d.clock.Nanos(n.window), Loops: n.loops, EmptyLoops: n.empty,
		Requests: n.requests,
		Gets:     n.outcomes[kv.OutcomeGet], Puts: n.outcomes[kv.OutcomePut],
		Lookups: n.outcomes[kv.OutcomeLookup], Rejected: n.outcomes[kv.OutcomeRejected],
		Served:      d.early + d.counts.requests,
		StoredBytes: n.store.StoredBytes, ChecksummedBytes: n.store.ChecksummedBytes,
		Flushes: n.flushes, BackPressure: n.backPressure, Thread: thread,
	}
	if d.proxy != nil {
		r.Proxy = &record.ProxyReport{
			FromClients: n.fromClients, Local: n.local, Remote: n.remote,
			Responses: n.responses, Incoming: n.incoming, Held: n.held,
		}
	}
	if d.delegation != nil {
		r.Delegation = &record.DelegationReport{Sent: n.delegated, Served: n.forSiblings}
	}
	if d.device != nil {
		device := d.device.report
		device.Values = n.left
		r.Device = &device
	}
	if d.storage != nil {
		r.Storage = d.storage.report(&d.cfg)
	}
	d.Gaps.Report(&r.Thread)
	d.loop.report(&r)
	if n.loops > 0 {
		d.loop.settle(float64(thread.Busy(r.ElapsedNS)) / float64(n.loops))
	}
	return r
}
