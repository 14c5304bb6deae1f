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

// daemon is one serving thread: a worker, the part of the store that it owns,
// and in mesh-proxied the links of its rank's clients. daemon_datapath.go has
// its loop, and daemon_proxy.go what it does for those clients.
type daemon struct {
	cfg   config.Config
	rank  int
	idle  idler
	clock *machine.Clock
	stats transport.StatsReader // nil where the worker has none
	store *kv.Store

	worker  transport.Worker
	events  []transport.Event
	out     outbox // replies to peers, and calls of the rank's clients
	headers [][kv.HeaderSize]byte
	next    int // in headers, circular

	proxy  *proxy     // nil but in mesh-proxied
	device *deviceLog // nil but where payloads stay in device memory

	counts daemonCounts
	// atEnd is what counts was when the window ended.
	atEnd daemonCounts
	start uint64
	ended bool
	loop  loopTimer
}

// daemonCounts are the loop's own.
type daemonCounts struct {
	loops, empty, requests, gets, puts, lookups, rejected, flushes, backPressure uint64
	window                                                                       uint64 // ticks
	fromClients, local, remote, responses, incoming, held                        uint64 // of mesh-proxied
	left                                                                         uint64 // of puts, in device memory
}

// newDaemon makes the daemon with an index within its rank, on a worker, and
// fills its store with the keys that it owns.
func newDaemon(w wiring, index int, idle string, worker transport.Worker) (*daemon, error) {
	store, err := newStore(w, index)
	if err != nil {
		return nil, err
	}
	served, forwarded := w.served(), 0
	if w.cfg.Proxied() {
		forwarded = w.cfg.CallsPerConnection()
	}
	d := &daemon{
		cfg: w.cfg, rank: w.rank, worker: worker, idle: newIdler(idle, worker), clock: machine.Calibrated(), store: store,
		events: make([]transport.Event, max(pollBatch, min(served+forwarded, mostPoll))),
		out:    newOutbox(worker, served+forwarded),
		// One for every request that can be open, of peers and of clients.
		headers: make([][kv.HeaderSize]byte, served+forwarded),
		loop:    newLoopTimer(machine.Calibrated()),
	}
	d.stats, _ = worker.(transport.StatsReader)
	return d, nil
}

// newStore makes the store of one daemon of a rank, with the keys that it owns.
func newStore(w wiring, index int) (*kv.Store, error) {
	cfg := w.cfg
	owns := func(key uint64) bool {
		return kv.RankOf(key, cfg.ServingRanks()) == w.rank && kv.Owner(key, cfg.Daemons) == index
	}
	owned := 0
	for key := range uint64(cfg.TotalKeys()) {
		if owns(key) {
			owned++
		}
	}
	store, err := kv.NewStore(max(owned, 1), cfg.ValueSize.Max())
	if err != nil {
		return nil, fmt.Errorf("making a store of %d keys: %w; lower --keys or --value-size", owned, err)
	}
	store.VerifyEvery = cfg.VerifyEvery
	sizes := workload.NewSizes(cfg.ValueSize)
	for key := range uint64(cfg.TotalKeys()) {
		if owns(key) {
			if err := store.Fill(key, sizes.At(key)); err != nil {
				_ = store.Close()
				return nil, fmt.Errorf("filling the store: %w", err)
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

// begin forgets the last phase.
func (d *daemon) begin() {
	d.atEnd = daemonCounts{} // a phase may fail before its window
	d.loop.begin()
}

func (d *daemon) report(thread record.ThreadReport) (record.DaemonReport, error) {
	n := &d.atEnd
	r := record.DaemonReport{
		ElapsedNS: d.clock.Nanos(n.window), Loops: n.loops, EmptyLoops: n.empty,
		Requests: n.requests, Gets: n.gets, Puts: n.puts, Lookups: n.lookups, Rejected: n.rejected,
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
	if d.stats != nil {
		r.Transport = d.stats.ReadStats(nil)
	}
	err := d.loop.report(&r)
	if n.loops > 0 {
		d.loop.settle(float64(thread.Busy(r.ElapsedNS)) / float64(n.loops))
	}
	return r, err
}
