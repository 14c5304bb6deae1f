package rank

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// client is one client thread: a worker, a stream of requests, and twice as many
// slots as it keeps calls in flight, so that each call in flight has a prepared
// one behind it. client_datapath.go has its loop.
type client struct {
	cfg    config.Config
	worker transport.Worker
	idle   idler
	source *workload.Source
	clock  *machine.Clock
	stats  transport.StatsReader // nil where the worker has none

	// readSize is the length of every value that is read, or kv.AnySize.
	readSize int32
	request  workload.Request

	slots    []slot
	prepared queue  // slots whose request is ready to go, in the order of drawing
	buffers  []byte // off the heap; a stretch for each slot
	ops      []transport.Op
	events   []transport.Event
	seen     []seenVersion
	seenMask uint64
	inFlight int
	nonce    uint64
	// drainLimit bounds how long the end of a phase waits for what is in
	// flight.
	drainLimit time.Duration

	route route
	trace *trace  // of mesh-proxied, else nil
	pace  *pace   // nil for a closed loop
	freed uint64  // ticks: when an open loop last had a call free again
	open  *open   // what an open loop records
	mesh  *meshed // what a mesh records
	cycle *cycles // of a pattern, else nil

	burner   burner
	verify   uint32 // values left to read until the next checksum
	sampler  sampler
	timed    int    // sampled calls in flight
	readCost uint64 // ticks; see the function

	counts clientCounts
	series series
	byOp   [workload.NumOps]*record.Histogram // latencies; nil where there is no such operation
	live   live
}

// slot is one call, prepared or in flight. Its index is the call's token. It
// fills a cache line.
type slot struct {
	buffer      []byte // off the heap
	key         uint64
	started     uint64 // ticks, 0 for a call that is not timed
	requestSize uint32 // in buffer
	written     uint32 // bytes of the value that is sent
	wantSize    int32  // of the response's value, or kv.AnySize
	minVersion  uint32 // the newest that this client had seen of the key
	peer        transport.PeerID
	op          workload.Op
	reads       uint8 // 1 for a read, else 0
	busy        bool  // in flight
	flags       uint8
}

// Of a slot.
const (
	slotRemote  = 1 << iota // another rank than the own has the key
	slotTraced              // its stages are taken
	slotReading             // a read-modify-write whose read has no response yet
)

// seenVersion is the newest version that this client has seen of a key. The
// table is direct-mapped: with more keys than entries, a key that shares its
// entry is checked against what is remembered of it.
type seenVersion struct {
	key     uint64
	version uint32
}

const mostSeen = 1 << 20

// drainLimit is generous: a machine that stands still for seconds has not lost
// a call.
const drainLimit = 5 * time.Second

// clientCounts are the loop's own; they cover the window.
type clientCounts struct {
	ops, bytes                  uint64
	byOp                        [workload.NumOps]uint64
	sums                        uint64 // responses whose checksum was verified
	wrong                       uint64 // of ops; a read-modify-write can have two failures
	backPressure, polls, empty  uint64
	drained, lost               uint64
	failures                    [kv.NumFailures]uint64
	unknownToken                uint64
	samples, latencySum, window uint64 // latencySum and window in ticks
}

// meshed is what a client of a mesh records besides.
type meshed struct {
	local, remote *timing
	stages        [4]*timing // of mesh-proxied
}

func newMeshed(cfg config.Config) *meshed {
	if !cfg.Mesh() {
		return nil
	}
	m := &meshed{local: newTiming(), remote: newTiming()}
	if cfg.Proxied() {
		for i := range m.stages {
			m.stages[i] = newTiming()
		}
	}
	return m
}

func (m *meshed) reset() {
	m.local.reset()
	m.remote.reset()
	for _, stage := range m.stages {
		if stage != nil {
			stage.reset()
		}
	}
}

// open is what an open-loop client records besides.
type open struct {
	response, lag *timing
	scheduled     uint64
	intended      []uint64 // by slot, ticks: when a timed call was due
}

// newClient makes a client of a rank on a worker; number counts the clients of
// all ranks and seeds its stream.
func newClient(w wiring, number int, idle string, worker transport.Worker) (*client, error) {
	cfg := w.cfg
	source, err := workload.New(cfg, number)
	if err != nil {
		return nil, err
	}
	stride := (cfg.LargestMessage() + 63) &^ 63
	slots := 2 * cfg.InFlight
	buffers, err := unix.Mmap(-1, 0, stride*slots, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes for %d requests in flight: %w; lower --in-flight or --value-size", stride*slots, cfg.InFlight, err)
	}
	entries := 1
	for entries < min(cfg.TotalKeys(), mostSeen) {
		entries *= 2
	}
	c := &client{
		cfg: cfg, worker: worker, idle: newIdler(idle, worker), source: source, clock: machine.Calibrated(),
		route: newRoute(w, number), mesh: newMeshed(cfg),
		slots: make([]slot, slots), prepared: newQueue(slots), buffers: buffers,
		ops: make([]transport.Op, 0, cfg.InFlight), events: make([]transport.Event, max(pollBatch, min(cfg.InFlight, mostPoll))),
		seen: make([]seenVersion, entries), seenMask: uint64(entries - 1),
		nonce: uint64(number) << 40, drainLimit: drainLimit,
		readSize: kv.AnySize, cycle: newCycles(cfg, slots),
	}
	if cfg.ValueSize.Fixed() {
		c.readSize = int32(cfg.ValueSize.Max())
	}
	for op := range c.byOp {
		if plain := workload.Op(op) <= workload.Write; plain || c.mixed() {
			c.byOp[op] = record.NewHistogram()
		}
	}
	c.readCost = readCost(c.clock)
	c.burner = newBurner(c.clock, time.Duration(cfg.Burn))
	c.stats, _ = worker.(transport.StatsReader)
	if c.pace = newPace(cfg, c.clock, number); c.pace != nil {
		c.open = &open{response: newTiming(), lag: newTiming(), intended: make([]uint64, slots)}
	}
	for i := range c.slots {
		c.slots[i].buffer = buffers[i*stride : (i+1)*stride : (i+1)*stride]
		c.prepare(uint32(i))
	}
	return c, nil
}

// mixed says whether there are other operations than reads and writes.
func (c *client) mixed() bool { return len(c.cfg.Mix)+len(c.cfg.Pattern) > 0 }

func (c *client) close() error { return unix.Munmap(c.buffers) }

// begin forgets the last phase.
func (c *client) begin(sampleEvery int, duration time.Duration) {
	for _, h := range c.byOp {
		if h != nil {
			h.Reset()
		}
	}
	if c.cycle != nil {
		c.cycle.begin()
	}
	c.live.reset()
	c.series.reset(c.clock.Ticks(duration))
	c.sampler = newSampler(sampleEvery, c.nonce+c.cfg.Seed)
	c.verify = uint32(c.cfg.VerifyEvery)
	c.counts = clientCounts{} // a phase may fail before its window
	if c.mesh != nil {
		c.mesh.reset()
	}
	if c.open != nil {
		c.open.response.reset()
		c.open.lag.reset()
		c.open.scheduled = 0
	}
}

// report turns the counts of a phase into the form that the host collects.
func (c *client) report(thread record.ThreadReport) (record.ClientReport, error) {
	n := &c.counts
	r := record.ClientReport{
		ElapsedNS: c.clock.Nanos(n.window),
		Reads:     n.byOp[workload.Read], Lookups: n.byOp[workload.Lookup],
		Writes:       n.byOp[workload.Write] + n.byOp[workload.Insert] + n.byOp[workload.ReadModifyWrite],
		PayloadBytes: n.bytes, Drained: n.drained, Lost: n.lost,
		VerifiedKeys: n.ops - n.wrong, VerifiedSums: n.sums,
		BackPressure: n.backPressure, Polls: n.polls, EmptyPolls: n.empty,
		Samples: n.samples, Thread: thread, Failures: c.failures(), Slices: c.series.report(),
	}
	if n.samples > 0 {
		r.MeanNS = float64(c.clock.Nanos(n.latencySum)) / float64(n.samples)
	}
	if c.stats != nil {
		r.Transport = c.stats.ReadStats(nil)
	}
	return r, errors.Join(c.reportLatencies(&r), c.reportMesh(&r), c.reportOpen(&r))
}

func (c *client) reportLatencies(r *record.ClientReport) error {
	all, writes := record.NewHistogram(), record.NewHistogram()
	for op, h := range c.byOp {
		if h == nil {
			continue
		}
		all.Merge(h)
		if workload.Op(op).Writes() {
			writes.Merge(h)
		}
	}
	var err error
	for _, h := range []struct {
		to   *string
		from *record.Histogram
	}{{&r.Latency, all}, {&r.ReadLatency, c.byOp[workload.Read]}, {&r.WriteLatency, writes}} {
		if *h.to, err = h.from.Encode(); err != nil {
			return fmt.Errorf("encoding latencies: %w", err)
		}
	}
	if !c.mixed() {
		return nil
	}
	r.Operations = map[string]record.OperationReport{}
	for op, h := range c.byOp {
		if c.counts.byOp[op] == 0 {
			continue
		}
		o := record.OperationReport{Count: c.counts.byOp[op], Latency: record.TimingReport{MeanNS: h.Mean(), Samples: h.Count()}}
		if o.Latency.Histogram, err = h.Encode(); err != nil {
			return fmt.Errorf("encoding latencies: %w", err)
		}
		r.Operations[workload.Op(op).String()] = o
	}
	if c.cycle != nil {
		iterations, err := c.cycle.times.report(c.clock)
		r.Iterations = &iterations
		return err
	}
	return nil
}

func (c *client) reportMesh(r *record.ClientReport) error {
	if c.mesh == nil {
		return nil
	}
	local, err := c.mesh.local.report(c.clock)
	if err != nil {
		return err
	}
	remote, err := c.mesh.remote.report(c.clock)
	if err != nil {
		return err
	}
	r.Local, r.Remote = &local, &remote
	for i, stage := range c.mesh.stages {
		if stage == nil || stage.samples == 0 {
			continue
		}
		if r.Stages == nil {
			r.Stages = map[string]record.TimingReport{}
		}
		if r.Stages[record.StageNames[i]], err = stage.report(c.clock); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) reportOpen(r *record.ClientReport) error {
	if c.open == nil {
		return nil
	}
	response, err := c.open.response.report(c.clock)
	if err != nil {
		return err
	}
	lag, err := c.open.lag.report(c.clock)
	r.Open = &record.OpenReport{Scheduled: c.open.scheduled, Response: response, Lag: lag}
	return err
}

func (c *client) failures() map[string]uint64 {
	m := map[string]uint64{}
	for f := kv.FailureNone + 1; f < kv.NumFailures; f++ {
		if c.counts.failures[f] > 0 {
			m[f.String()] = c.counts.failures[f]
		}
	}
	if c.counts.unknownToken > 0 {
		m["unknown token"] = c.counts.unknownToken
	}
	return m
}
