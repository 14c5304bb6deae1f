package rank

import (
	"errors"
	"fmt"

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
	cfg   config.Config
	rank  int
	idle  idler
	clock *machine.Clock
	store *kv.Store

	worker  transport.Worker
	events  []transport.Event
	out     outbox // replies to peers, and forwarded calls of local clients
	headers [][kv.HeaderSize]byte
	next    int // in headers, circular

	proxy  *proxy     // nil unless mesh-proxied
	device *deviceLog // nil unless payloads stay in device memory

	counts daemonCounts
	// atEnd is a copy of counts at the end of the window.
	atEnd daemonCounts
	start uint64
	ended bool
	// early counts the requests served before the window, which come from ranks that began earlier.
	early uint64
	loop  loopTimer
}

// daemonCounts are the counts of one window.
type daemonCounts struct {
	loops, empty, requests, gets, puts, lookups, rejected, flushes, backPressure uint64
	window                                                                       uint64 // ticks
	fromClients, local, remote, responses, incoming, held                        uint64 // mesh-proxied
	left                                                                         uint64 // PUTs whose value stays in device memory
	store                                                                        kv.Work
}

// newDaemon returns the daemon with that index within its rank, and fills its store with the
// keys that it owns.
func newDaemon(w wiring, index int, idle string, worker transport.Worker) (*daemon, error) {
	store, err := newStore(w, index)
	if err != nil {
		return nil, err
	}
	open, forwarded := w.openRequests(), 0
	if w.cfg.Proxied() {
		forwarded = w.cfg.CallsPerConnection()
	}
	d := &daemon{
		cfg: w.cfg, rank: w.rank, worker: worker, idle: newIdler(idle, worker), clock: machine.Calibrated(), store: store,
		events: make([]transport.Event, max(minPollBatch, min(open+forwarded, maxPollBatch))),
		out:    newOutbox(worker, open+forwarded),
		// One for each request of peers and of clients that can be open.
		headers: make([][kv.HeaderSize]byte, open+forwarded),
		loop:    newLoopTimer(machine.Calibrated()),
	}
	return d, nil
}

// newStore returns the store of one daemon of a rank, filled with the keys that it owns.
func newStore(w wiring, index int) (*kv.Store, error) {
	cfg := w.cfg
	owns := func(key uint64) bool {
		return kv.RankOf(key, cfg.ServingRanks()) == w.rank && kv.DaemonOf(key, cfg.Daemons) == index
	}
	owned := 0
	for key := range uint64(cfg.TotalKeys()) {
		if owns(key) {
			owned++
		}
	}
	store, err := kv.NewStore(max(owned, 1), cfg.ValueSize.Max())
	if err != nil {
		return nil, fmt.Errorf("make a store of %d keys: %w; lower --keys or --value-size", owned, err)
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

func (d *daemon) close() error {
	if d.device != nil {
		return errors.Join(d.store.Close(), d.device.close())
	}
	return d.store.Close()
}

// begin resets the records before a window.
func (d *daemon) begin() {
	d.atEnd, d.counts, d.early = daemonCounts{}, daemonCounts{}, 0 // the window may fail before it begins to measure
	d.loop.begin()
}

func (d *daemon) report(thread record.ThreadReport) record.DaemonReport {
	n := &d.atEnd
	r := record.DaemonReport{
		ElapsedNS: d.clock.Nanos(n.window), Loops: n.loops, EmptyLoops: n.empty,
		Requests: n.requests, Gets: n.gets, Puts: n.puts, Lookups: n.lookups, Rejected: n.rejected,
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
	if d.device != nil {
		device := d.device.report
		device.Values = n.left
		r.Device = &device
	}
	d.loop.report(&r)
	if n.loops > 0 {
		d.loop.settle(float64(thread.Busy(r.ElapsedNS)) / float64(n.loops))
	}
	return r
}
