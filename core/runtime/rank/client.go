package rank

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/fabric/pow2"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// client is one client thread: a worker and a stream of requests. [config.Config.Requests] says how
// many calls it has, and whether their requests are drawn once and replayed. If they are drawn as
// it goes, there are twice as many as may be in flight, so that a prepared call is ready whenever
// one completes. client_datapath.go has its loop.
type client struct {
	cfg       config.Config
	worker    transport.Worker
	idle      idler
	generator *workload.Generator
	clock     *machine.Clock

	// readSize is the length of every value that is read, or kv.AnySize.
	readSize int32
	request  workload.Request

	service  service
	calls    []call
	requests []transport.Op // by call; if replays, the first ones again after the last
	buffers  []byte         // off the Go heap; one payload for each call
	stride   int            // in buffers
	replays  bool
	order    callOrder
	drawn    *drawnOrder // order unless replays, else nil
	loop     callLoop
	ops      []transport.Op // the calls to post, but of a replayedLoop
	events   []transport.Event
	// complete verifies, counts and records the responses among events.
	complete func(c *client, events []transport.Event, now uint64)
	// eachCall means that a recorder needs to know of each call that is issued.
	eachCall  bool
	flushEach bool // the doorbell rings for each call
	seen      []seenVersion
	seenMask  uint64
	inFlight  int
	nonce     uint64
	// drainLimit bounds the wait for calls in flight at the end of a window.
	drainLimit time.Duration

	route      route
	trace      *trace      // nil unless mesh-proxied
	schedule   *schedule   // nil for a closed loop
	open       *openTimes  // nil for a closed loop
	mesh       *meshTimes  // nil unless a mesh
	peers      *peerTimes  // nil unless operations count by who was called
	iterations *iterations // nil without iterations

	readCost uint64 // ticks of one reading of the clock

	burner  burner
	verify  uint32  // values to read until the next checksum is verified
	sampler sampler // of completed calls, whose latencies to record
	traced  sampler // of issued calls, in mesh-proxied
	gaps    gapWatch
	stager  *stager // nil in mesh-proxied
	// callsFirst means that the next window begins with a first call on each connection, whose
	// times in nanoseconds are in first.
	callsFirst bool
	silent     bool // the next window is another class's alone
	first      []uint64
	counted    uint64 // ticks: up to here, counts.inFlight has the calls in flight
	entered    bool   // the window has begun
	began      uint64 // ticks: its begin

	counts clientCounts
	slices sliceCounter
	byOp   [workload.NumOps]*record.Recorder // latencies; nil for operations that the load lacks
	live   live
}

// call is one call. Its index is its token. Two fill a cache line.
type call struct {
	key        uint64
	started    uint64 // ticks
	written    uint32 // bytes of the value to send
	wantSize   int32  // of the response's value, or kv.AnySize
	minVersion uint32 // the newest version of the key that this client had seen
	op         workload.Op
	reads      uint8 // 1 for a read, else 0
	state      callState
	flags      uint8
}

type callState uint8

const (
	callFree     callState = iota // ready to be issued
	callInFlight                  // issued and not answered
	callAnswered                  // its response is not verified yet
)

// The flags of a call.
const (
	callRemote  = 1 << iota // another rank owns the key
	callTraced              // its trace is being taken
	callReading             // a read-modify-write whose read has no response yet
)

// seenVersion is the newest version of a key that this client has seen. The table is
// direct-mapped: with more keys than entries, keys that share an entry evict each other, and
// an evicted key is not checked for stale versions.
type seenVersion struct {
	key     uint64
	version uint32
}

const maxSeen = 1 << 20

const (
	// The number of events of one Poll is the number of messages that can arrive, within these
	// bounds.
	minPollBatch = 64
	maxPollBatch = 1024
)

// drainLimit is generous, because a machine or a link that stalls for seconds has not lost a call.
// It is longer than the default timeouts of the transports, which know best whether a peer is gone.
const drainLimit = 12 * time.Second

// clientCounts are the counts of one window.
type clientCounts struct {
	ops, bytes                  uint64
	byOp                        [workload.NumOps]uint64
	sums                        uint64 // responses whose checksum was verified
	summed                      uint64 // bytes of values whose checksum was computed
	wrong                       uint64 // ops with a failure; a read-modify-write can have two
	backPressure, polls, empty  uint64
	drained, lost, posted       uint64
	failures                    [kv.NumFailures]uint64
	unknownToken                uint64
	samples, latencySum, window uint64 // latencySum and window in ticks
	found                       uint64 // polls in the window that returned responses
	inFlight                    uint64 // ticks: calls in flight, integrated over the window
	// iterations that found responses and were timed, and their time
	busyTimed, busyTicks uint64
}

// meshTimes are the times that only a client of a mesh records.
type meshTimes struct {
	local, remote *timing
	stages        [4]*timing // of a proxied request; nil unless mesh-proxied
}

func newMeshTimes(cfg config.Config) *meshTimes {
	if !cfg.Mesh() {
		return nil
	}
	m := &meshTimes{local: newTiming(), remote: newTiming()}
	if cfg.Proxied() {
		for i := range m.stages {
			m.stages[i] = newTiming()
		}
	}
	return m
}

func (m *meshTimes) reset() {
	m.local.reset()
	m.remote.reset()
	for _, stage := range m.stages {
		if stage != nil {
			stage.reset()
		}
	}
}

// openTimes are the times that only an open-loop client records.
type openTimes struct {
	response, lag *timing
	scheduled     uint64
	// By call, in ticks: when it was due, and how late it was issued.
	intended, late []uint64
}

// newClient returns a client on a worker. number is its number among the clients of all ranks
// and seeds its requests.
func newClient(w wiring, number int, idle string, worker transport.Worker) (*client, error) {
	cfg := w.cfg.OfClient(number % w.cfg.Clients)
	calls, replays := cfg.Requests()
	return newClientOf(w, number, idle, worker, calls, replays)
}

// newClientOf returns a client with that many calls.
func newClientOf(w wiring, number int, idle string, worker transport.Worker, calls int,
	replays bool) (*client, error) {
	local := number % w.cfg.Clients
	cfg := w.cfg.OfClient(local)
	stride := (cfg.LargestMessage() + 63) &^ 63
	buffers, err := unix.Mmap(-1, 0, stride*calls, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil,
			fmt.Errorf("map %d bytes for %d requests: %w; lower --in-flight or --value-size",
				stride*calls, calls, err)
	}
	entries := pow2.Ceil(min(cfg.TotalKeys(), maxSeen))
	c := &client{
		cfg: cfg, worker: worker, generator: newGenerator(cfg, number), clock: machine.Calibrated(),
		route: newRoute(w, number), mesh: newMeshTimes(cfg),
		service: serviceOf(cfg), calls: make([]call, calls),
		requests: make([]transport.Op, calls, calls+cfg.InFlight), replays: replays,
		buffers: buffers, stride: stride,
		ops:    make([]transport.Op, 0, cfg.InFlight),
		events: make([]transport.Event, max(minPollBatch, min(cfg.InFlight, maxPollBatch))),
		seen:   make([]seenVersion, entries), seenMask: uint64(entries - 1),
		nonce: uint64(number) << 40, drainLimit: drainLimit,
		readSize: kv.AnySize, peers: newPeerTimes(w, calls), iterations: newIterations(cfg, calls),
	}
	if cfg.ValueSize.Fixed() {
		c.readSize = int32(cfg.ValueSize.Max())
	}
	for op := range c.byOp {
		if plain := workload.Op(op) <= workload.Write; plain || c.mixed() {
			c.byOp[op] = record.NewRecorder()
		}
	}
	c.gaps = newGapWatch(c.clock)
	c.live.every = c.clock.Ticks(liveEvery)
	c.live.silences = newSilences(c.clock)
	c.readCost = readCost(c.clock)
	c.idle = newIdler(idle, worker, &c.gaps)
	c.burner = newBurner(c.clock, time.Duration(cfg.Burn))
	if c.schedule = newSchedule(cfg, c.clock, number); c.schedule != nil {
		c.open = &openTimes{response: newTiming(), lag: newTiming(),
			intended: make([]uint64, calls), late: make([]uint64, calls)}
	}
	if !cfg.Proxied() {
		c.stager = newStager(c.clock, c.readCost, w.clientPeer(w.rank, local), cfg.Seed)
	}
	c.chooseLoop()
	for i := range c.calls {
		c.requests[i].Kind = transport.OpCall
		c.requests[i].Token = transport.Token(i)
		c.prepare(i)
	}
	if replays {
		for i := range cfg.InFlight {
			c.requests = append(c.requests, c.requests[i])
		}
	}
	return c, nil
}

// callOrder is the order in which a client issues its calls: a [replayOrder] or a [drawnOrder].
type callOrder interface {
	// next removes and returns the call to issue. Fewer than Config.InFlight must be in flight, so
	// there is one.
	next() int
	// putBack makes a call that was issued the next again.
	putBack(index int)
	// upcoming returns the call that is issued after ahead others; ok is false if it is not known.
	upcoming(ahead int) (index int, ok bool)
}

// chooseLoop chooses how the client issues its calls and verifies their responses.
func (c *client) chooseLoop() {
	replay := &replayOrder{calls: c.calls}
	if c.order = replay; !c.replays {
		c.drawn = newDrawnOrder(len(c.calls))
		c.order = c.drawn
	}
	switch {
	case c.schedule != nil:
		c.loop = &openLoop{client: c, callOrder: c.order}
	case c.replays:
		c.loop = &replayedLoop{client: c, replayOrder: replay}
	default:
		c.loop = &drawnLoop{client: c, drawnOrder: c.drawn}
	}
	c.flushEach = c.cfg.Flush == config.FlushImmediate
	c.eachCall = c.iterations != nil || c.cfg.Proxied()
	c.complete = completeEach
	if c.iterations == nil && c.peers == nil {
		switch c.service {
		case serviceEcho:
			c.complete = completeEchoes
		case serviceStore:
			c.complete = completeStore
		}
	}
}

// newGenerator returns the generator of a client; number is its number among those of all ranks.
func newGenerator(cfg config.Config, number int) *workload.Generator {
	if cfg.Service != config.ServiceStore {
		cfg.ReadRatio = 0 // each request has a value
	}
	return workload.New(cfg, number)
}

// service is config.Service as a number.
type service uint8

const (
	serviceStore service = iota
	serviceEcho
	serviceSink
)

func serviceOf(cfg config.Config) service {
	switch cfg.Service {
	case config.ServiceEcho:
		return serviceEcho
	case config.ServiceSink:
		return serviceSink
	}
	return serviceStore
}

// mixed reports whether the load has a mix or a pattern of operations.
func (c *client) mixed() bool { return len(c.cfg.Mix)+len(c.cfg.Pattern) > 0 }

func (c *client) close() error { return unix.Munmap(c.buffers) }

// begin resets the records before a window.
func (c *client) begin(sampleEvery int, duration time.Duration) {
	for _, h := range c.byOp {
		if h != nil {
			h.Reset()
		}
	}
	if c.iterations != nil {
		c.iterations.begin()
	}
	c.live.reset()
	c.slices.reset(c.clock.Ticks(duration))
	c.sampler = newSampler(sampleEvery, c.nonce+c.cfg.Seed)
	c.traced = c.sampler
	if c.stager != nil {
		c.stager.begin()
	}
	c.verify = uint32(c.cfg.VerifyEvery)
	c.counts = clientCounts{} // the window may fail before it begins to measure
	if c.mesh != nil {
		c.mesh.reset()
	}
	if c.peers != nil {
		c.peers.reset()
	}
	if c.open != nil {
		c.open.response.reset()
		c.open.lag.reset()
		c.open.scheduled = 0
	}
}

// report returns what the client recorded in the window.
func (c *client) report(thread record.ThreadReport) record.ClientReport {
	n := &c.counts
	r := record.ClientReport{
		ElapsedNS: c.clock.Nanos(n.window),
		Reads:     n.byOp[workload.Read], Lookups: n.byOp[workload.Lookup],
		Writes: n.byOp[workload.Write] + n.byOp[workload.Insert] +
			n.byOp[workload.ReadModifyWrite],
		PayloadBytes: n.bytes, Drained: n.drained, Issued: n.posted, Lost: n.lost,
		VerifiedKeys: n.ops - n.wrong, VerifiedSums: n.sums, ChecksummedBytes: n.summed,
		BackPressure: n.backPressure, Polls: n.polls, EmptyPolls: n.empty,
		Samples: n.samples, Thread: thread, Failures: c.failures(), Slices: c.slices.report(),
	}
	r.InFlightNS = c.clock.Nanos(n.inFlight)
	if n.busyTimed > 0 {
		r.BusyNS = uint64(float64(c.clock.Nanos(n.busyTicks)) / float64(n.busyTimed) * float64(
			n.found))
	}
	c.gaps.report(&r.Thread)
	r.Silences = c.live.silences.report(n.window, n.ops, c.cfg.InFlight)
	c.reportStages(&r)
	if n.samples > 0 {
		r.MeanNS = float64(c.clock.Nanos(n.latencySum)) / float64(n.samples)
	}
	c.reportLatencies(&r)
	if c.mesh != nil {
		c.reportMesh(&r)
	}
	if c.peers != nil {
		c.peers.report(c.clock, &r)
	}
	if o := c.open; o != nil {
		r.Open = &record.OpenReport{Scheduled: o.scheduled, Response: o.response.report(c.clock),
			Lag: o.lag.report(c.clock)}
	}
	return r
}

func (c *client) reportLatencies(r *record.ClientReport) {
	all, reads, writes := record.NewHistogram(), record.NewHistogram(), record.NewHistogram()
	for op, recorder := range c.byOp {
		if recorder == nil {
			continue
		}
		h := recorder.Histogram()
		all.Merge(h)
		switch {
		case workload.Op(op) == workload.Read:
			reads = h
		case workload.Op(op).Writes():
			writes.Merge(h)
		}
		if count := c.counts.byOp[op]; c.mixed() && count > 0 {
			if r.Operations == nil {
				r.Operations = map[string]record.OperationReport{}
			}
			r.Operations[workload.Op(op).String()] = record.OperationReport{Count: count,
				Latency: record.TimingReport{Histogram: h.Encode(), MeanNS: h.Mean(),
					Samples: h.Count()}}
		}
	}
	r.Latency, r.ReadLatency, r.WriteLatency = all.Encode(), reads.Encode(), writes.Encode()
	if c.iterations != nil {
		times, firsts := c.iterations.times.report(c.clock), c.iterations.firsts.report(c.clock)
		r.Iterations, r.FirstParts = &times, &firsts
	}
}

func (c *client) reportMesh(r *record.ClientReport) {
	local, remote := c.mesh.local.report(c.clock), c.mesh.remote.report(c.clock)
	r.Local, r.Remote = &local, &remote
	for i, stage := range c.mesh.stages {
		if stage == nil || stage.samples == 0 {
			continue
		}
		if r.Stages == nil {
			r.Stages = map[string]record.TimingReport{}
		}
		r.Stages[record.StageNames[i]] = stage.report(c.clock)
	}
}

// reportStages reports the stages of calls over the transport, and settles their sampling.
func (c *client) reportStages(r *record.ClientReport) {
	s := c.stager
	if s == nil {
		return
	}
	r.NoStages = s.missing
	if s.stages[0].samples > 0 {
		r.Stages = map[string]record.TimingReport{}
		r.StageNS = float64(c.clock.Nanos(s.readCost*stampedStages*1024)) / 1024
		for i, stage := range s.stages {
			r.Stages[record.DirectStages[i]] = stage.report(c.clock)
		}
	}
	if ops := c.counts.ops; ops > 0 {
		s.every = sampleEveryFor(stageCost, float64(r.Thread.Busy(r.ElapsedNS))/float64(ops))
	}
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
