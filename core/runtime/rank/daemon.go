package rank

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// daemon is one serving thread: a worker, the part of the store that it owns, and in
// mesh-proxied the links of its rank's clients. daemon_datapath.go has its loop, and proxy.go
// its work for those clients.
type daemon struct {
	cfg     config.Config
	rank    int
	idle    idler
	clock   *machine.Clock
	service service
	echoes  bool      // the service is the echo, and replies are flushed once per iteration
	store   *kv.Store // nil unless the service is the store
	sink    kv.Sink

	worker  transport.Worker
	events  []transport.Event
	out     outbox // replies to peers, and forwarded calls of local clients
	headers [][kv.HeaderSize]byte
	next    int // in headers, circular

	proxy      *proxy      // nil unless mesh-proxied
	delegation *delegation // nil unless the daemons of the rank delegate
	storage    *storage    // nil without delays
	device     *deviceLog  // nil unless payloads stay in device memory

	counts daemonCounts
	// atEnd is a copy of counts at the end of the window.
	atEnd daemonCounts
	start uint64
	ended bool
	// early counts the requests served before the window, which come from ranks that began earlier.
	early uint64
	loop  loopTimer
	gaps  gapWatch
	spot  spot
}

// daemonCounts are the counts of one window.
type daemonCounts struct {
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

// newDaemon returns the daemon with that index within its rank, and fills its store with the
// keys that it owns.
func newDaemon(w wiring, index int, idle string, worker transport.Worker) (*daemon, error) {
	var store *kv.Store
	if w.cfg.Service == config.ServiceStore {
		var err error
		if store, err = newStore(w, index); err != nil {
			return nil, err
		}
	}
	open := w.openCalls()
	serves := open
	if w.cfg.Delegate {
		serves *= w.cfg.Daemons
	}
	d := &daemon{
		cfg: w.cfg, rank: w.rank, worker: worker, clock: machine.Calibrated(),
		service: serviceOf(w.cfg), echoes: w.cfg.Service == config.ServiceEcho &&
			w.cfg.Flush == config.FlushLoop,
		store: store, sink: kv.Sink{VerifyEvery: w.cfg.VerifyEvery},
		events: make([]transport.Event, max(minPollBatch, min(open, maxPollBatch))),
		out:    newOutbox(worker, open),
		// One for each request of peers, clients and siblings that can be open.
		headers: make([][kv.HeaderSize]byte, serves),
		gaps:    newGapWatch(machine.Calibrated()),
	}
	if w.cfg.Stored() {
		d.storage = newStorage(d.clock, w.cfg, w.rank*w.cfg.Daemons+index, serves)
	}
	d.loop = newLoopTimer(d.clock, &d.gaps)
	d.idle = newIdler(idle, worker, &d.gaps)
	return d, d.out.keepFor(w.cfg)
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
func newStore(w wiring, index int) (*kv.Store, error) {
	cfg := w.cfg
	owns := func(key uint64) bool {
		return kv.RankOf(key, cfg.ServingRanks()) == w.rank &&
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
	sizes := workload.NewSizes(cfg.ValueSize)
	for key := range uint64(cfg.TotalKeys()) {
		if owns(key) {
			if err := store.Fill(key, sizes.At(key)); err != nil {
				_ = store.Close()
				return nil, fmt.Errorf("fill the store: %w", err)
			}
		}
	}
	return store, nil
}

func (d *daemon) close() (err error) {
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

// begin resets the records before a window.
func (d *daemon) begin() {
	// the window may fail before it begins to measure
	d.atEnd, d.counts, d.early = daemonCounts{}, daemonCounts{}, 0
	d.loop.begin()
}

func (d *daemon) report(thread record.ThreadReport) record.DaemonReport {
	n := &d.atEnd
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
		r.Storage = d.storage.atEnd.report(d.clock, d.storage.limit)
	}
	d.gaps.report(&r.Thread)
	d.loop.report(&r)
	if n.loops > 0 {
		d.loop.settle(float64(thread.Busy(r.ElapsedNS)) / float64(n.loops))
	}
	return r
}
