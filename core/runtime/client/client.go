package client

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/fabric/pow2"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// Client is one client thread: a worker and a stream of requests. [config.Config.Requests] says how
// many calls it has, and whether their requests are drawn once and repeated. If requests are drawn
// during the window, it has twice as many calls as may be in flight, so that another is prepared
// whenever one completes.
type Client struct {
	config    config.Config
	worker    transport.Worker
	idle      loop.Idler
	generator *workload.Generator
	stream    *workload.Stream // nil unless the requests come from a trace
	clock     *machine.Clock

	// readSize is the length of every value that is read, or kv.AnySize.
	readSize int32
	request  workload.Request

	service  loop.Service
	calls    []call
	requests []transport.Op // by call; if repeats, the first ones follow the last again
	buffers  []byte         // off the Go heap; one payload for each call
	stride   int            // bytes of a payload's room in buffers
	repeats  bool           // draws requests once and repeats them; never those of stream
	order    callOrder
	drawn    *drawnOrder // order, or nil if repeats
	loop     callLoop
	ops      []transport.Op // the calls to post; a repeatedLoop has none
	events   []transport.Event
	// complete verifies, counts and records the responses among events.
	complete func(c *Client, events []transport.Event, now uint64)
	// eachCall means that a recorder needs each call that is issued.
	eachCall  bool
	flushEach bool // the doorbell rings for each call
	seen      []seenVersion
	seenMask  uint64
	inFlight  int // calls issued and not answered, also those not posted yet
	maxIssued int // limit of inFlight: config.InFlight, or 0 once all of a burst are issued
	nonce     uint64
	// drainLimit bounds the wait for calls in flight at the end of a window.
	drainLimit time.Duration

	route      route
	trace      *loop.LinkTrace // nil unless mesh-proxied
	schedule   *schedule       // nil for a closed loop
	open       *openTimes      // nil for a closed loop
	mesh       *meshTimes      // nil unless a mesh
	peers      *peerTimes      // nil unless operations count by the called rank
	iterations *iterations     // nil without iterations

	readCost uint64 // ticks of one reading of the clock

	burner  burner
	verify  uint32       // values to read until the next checksum is verified
	sampler loop.Sampler // of completed calls, whose latencies to record
	traced  loop.Sampler // of issued calls, in mesh-proxied
	Gaps    loop.GapWatch
	stages  *stager // nil in mesh-proxied
	window  Window
	first   []uint64 // nanoseconds of the first call on each connection
	counted uint64   // ticks: up to here, counts.inFlight has the calls in flight
	entered bool     // the window has begun
	began   uint64   // ticks: its begin

	counts counts
	slices sliceCounter
	byOp   [workload.NumOps]*record.Recorder // latencies; nil for operations that the load lacks
	live   live

	target int                    // Window.Target for which requests were drawn
	device transport.DeviceWorker // nil unless it has the values of requests
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

// drainLimit is generous, because a machine or a link that stalls for seconds has not lost a call.
// It is longer than the default timeouts of the transports, which know best whether a peer is gone.
const drainLimit = 12 * time.Second

// counts are the counts of one window.
type counts struct {
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
	// iterations that found responses, up to the last timed one, and their time by the timed ones
	busyTimed, busyTicks uint64
}

// meshTimes are the times that only a client of a mesh records.
type meshTimes struct {
	local, remote *loop.Timing
	stages        [4]*loop.Timing // of a proxied request; nil unless mesh-proxied
}

func newMeshTimes(cfg config.Config) *meshTimes {
	if !cfg.Mesh() {
		return nil
	}
	m := &meshTimes{local: loop.NewTiming(), remote: loop.NewTiming()}
	if cfg.Proxied() {
		for i := range m.stages {
			m.stages[i] = loop.NewTiming()
		}
	}
	return m
}

func (m *meshTimes) reset() {
	m.local.Reset()
	m.remote.Reset()
	for _, stage := range m.stages {
		if stage != nil {
			stage.Reset()
		}
	}
}

// New returns a client on a worker. number is its number among the clients of all ranks
// and seeds its requests.
func New(w wiring.Wiring, number int, idle string, worker transport.Worker) (*Client, error) {
	cfg := w.Config.OfClient(number % w.Config.Clients)
	calls, repeats := cfg.Requests()
	return NewWith(w, number, idle, worker, calls, repeats)
}

// NewWith is New with the given number of calls.
func NewWith(w wiring.Wiring, number int, idle string, worker transport.Worker, calls int,
	repeats bool) (*Client, error) {
	local := number % w.Config.Clients
	cfg := w.Config.OfClient(local)
	stride := (cfg.LargestMessage() + 63) &^ 63
	buffers, err := unix.Mmap(-1, 0, stride*calls, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil,
			fmt.Errorf("map %d bytes for %d requests: %w; lower --in-flight or --value-size",
				stride*calls, calls, err)
	}
	entries := pow2.Ceil(min(cfg.TotalKeys(), maxSeen))
	c := &Client{
		config: cfg, worker: worker, generator: newGenerator(cfg, number),
		clock: machine.Calibrated(),
		route: newRoute(w, number), mesh: newMeshTimes(cfg),
		service: loop.ServiceOf(cfg), calls: make([]call, calls),
		requests: make([]transport.Op, calls, calls+cfg.InFlight), repeats: repeats,
		buffers: buffers, stride: stride,
		ops:    make([]transport.Op, 0, cfg.InFlight),
		events: make([]transport.Event, max(loop.MinBatch, min(cfg.InFlight, loop.MaxBatch))),
		seen:   make([]seenVersion, entries), seenMask: uint64(entries - 1),
		maxIssued: cfg.InFlight, nonce: uint64(number) << 40, drainLimit: drainLimit,
		readSize: kv.AnySize, peers: newPeerTimes(w, calls),
		iterations: newIterations(cfg, calls, workload.PatternStart(&cfg, number)),
	}
	if w.Replay != "" {
		if c.stream, err = workload.NewStream(w.Replay, &cfg, number); err != nil {
			return nil, errors.Join(err, unix.Munmap(buffers))
		}
		c.generator.Replay(c.stream)
	} else if cfg.ValueSize.Fixed() {
		c.readSize = int32(cfg.ValueSize.Max())
	}
	for op := range c.byOp {
		if plain := workload.Op(op) <= workload.Write; plain || c.mixed() {
			c.byOp[op] = record.NewRecorder()
		}
	}
	c.Gaps = loop.NewGapWatch(c.clock)
	c.live.every = c.clock.Ticks(liveEvery)
	c.live.silences = newSilences(c.clock)
	c.readCost = loop.ReadCost(c.clock)
	c.idle = loop.NewIdler(idle, worker, &c.Gaps)
	c.burner = newBurner(c.clock, time.Duration(cfg.Burn))
	if c.schedule = newSchedule(cfg, c.clock, w.Rank, number,
		c.stream); c.schedule != nil {
		c.open = newOpenTimes(calls, c.stream != nil && cfg.Rate.Offers() &&
			cfg.Clients <= steppedClients)
	}
	if !cfg.Proxied() {
		c.stages = newStager(c.clock, c.readCost, w.ClientPeer(w.Rank, local), cfg.Seed)
	}
	c.chooseLoop()
	for i := range c.calls {
		c.requests[i].Kind = transport.OpCall
		c.requests[i].Token = transport.Token(i)
		c.prepare(i)
	}
	if repeats {
		for i := range cfg.InFlight {
			c.requests = append(c.requests, c.requests[i])
		}
	}
	return c, nil
}

// callOrder is the order in which a client issues its calls: a [repeatOrder] or a [drawnOrder].
type callOrder interface {
	// next removes and returns the call to issue. Fewer than config.InFlight must be in flight, so
	// there is one.
	next() int
	// putBack makes a call that was issued the next again.
	putBack(index int)
	// upcoming returns the call that is issued after ahead others; ok is false if it is not known.
	upcoming(ahead int) (index int, ok bool)
}

// chooseLoop chooses how the client issues its calls and verifies their responses.
func (c *Client) chooseLoop() {
	repeat := &repeatOrder{calls: c.calls}
	if c.order = repeat; !c.repeats {
		c.drawn = newDrawnOrder(len(c.calls))
		c.order = c.drawn
	}
	switch {
	case c.schedule != nil:
		c.loop = &openLoop{Client: c, callOrder: c.order}
	case c.repeats:
		c.loop = &repeatedLoop{client: c, order: repeat}
	case c.config.Handoff != "":
		c.loop = &burstLoop{drawnLoop: &drawnLoop{Client: c, drawnOrder: c.drawn}}
	default:
		c.loop = &drawnLoop{Client: c, drawnOrder: c.drawn}
	}
	c.flushEach = c.config.Flush == config.FlushImmediate
	c.eachCall = c.iterations != nil || c.config.Proxied()
	c.complete = completeEach
	if l, bursts := c.loop.(*burstLoop); bursts {
		c.complete = l.complete
	}
	if c.iterations == nil && c.peers == nil {
		switch c.service {
		case loop.ServiceEcho:
			c.complete = completeEchoes
		case loop.ServiceStore:
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

// mixed reports whether the load has a mix or a pattern of operations.
func (c *Client) mixed() bool { return len(c.config.Mix)+len(c.config.Pattern) > 0 }

// Close frees the memory of the requests.
func (c *Client) Close() error {
	err := unix.Munmap(c.buffers)
	if c.stream != nil {
		err = errors.Join(err, c.stream.Close())
	}
	return err
}

// rewind returns to the start of a trace. Calls of the last window without an answer get the
// requests that follow those of the other calls.
func (c *Client) rewind() error {
	if err := c.stream.Rewind(); err != nil {
		return fmt.Errorf("read the trace to replay: %w", err)
	}
	return c.prepareAgain()
}

// prepareAgain draws the requests of all calls that are free anew, outside of windows.
func (c *Client) prepareAgain() error {
	if c.drawn != nil {
		c.drawn.head, c.drawn.tail = 0, 0
	}
	for i := range c.calls {
		if c.calls[i].state == callFree {
			c.prepare(i)
		}
	}
	copy(c.requests[len(c.calls):], c.requests)
	if c.device != nil {
		return c.writeDevice()
	}
	return nil
}

// aim makes the client call the one rank that the window measures, at the rate of that pair, or all
// ranks again. Only traffic by a matrix has such windows.
func (c *Client) aim() error {
	target, share := c.window.Target, 1.0
	if target == c.target || c.window.Silent {
		return nil
	}
	m, own := c.config.Traffic.Matrix(), int(c.route.own)
	if c.target = target; target == 0 {
		c.route.targets = m.Targets(own, matrixTargets)
	} else {
		c.route.targets, share = []uint64{uint64(target - 1)}, m.Within(own, target-1)
	}
	if c.schedule != nil {
		c.schedule.gap = min(c.schedule.whole/share, longestGap)
	}
	return c.prepareAgain()
}

// FirstCalls returns the times of the first calls on each connection so far, in nanoseconds.
func (c *Client) FirstCalls() []uint64 { return c.first }

// ParkAtOnce is called for a client whose loop is a goroutine.
func (c *Client) ParkAtOnce() { c.idle.Share() }

// Idler returns what the client's loop does when it finds nothing.
func (c *Client) Idler() *loop.Idler { return &c.idle }

// ShareTrace makes the client time the stages of calls to a daemon with a trace that both share.
func (c *Client) ShareTrace(daemon transport.PeerID, t *loop.CallTrace) {
	c.stages.share(daemon, t)
}

// NoTraces makes the client report why it times no stages.
func (c *Client) NoTraces(why string) { c.stages.missing = why }

// TraceLinks makes the client time the stages of calls over a proxy with a trace that both share.
func (c *Client) TraceLinks(t *loop.LinkTrace) { c.trace = t }

// Batch returns the mean number of calls that a poll of the last window completed, without empty
// polls; 0 if all were empty.
func (c *Client) Batch() float64 {
	if c.counts.found == 0 {
		return 0
	}
	return float64(c.counts.ops) / float64(c.counts.found)
}

// Payloads returns the client's requests. They change when a call is drawn again.
func (c *Client) Payloads() [][]byte {
	list := make([][]byte, len(c.calls))
	for i := range list {
		list[i] = c.requests[i].Payload
	}
	return list
}

// Window is what a client does in a window.
type Window struct {
	SampleEvery int // one of this many latencies is recorded
	Duration    time.Duration
	// Silent clients make no calls: another class or pair of ranks has the window alone, or the
	// rank calls none.
	Silent     bool
	Target     int  // the only rank of a matrix of traffic that is called, from 1; 0 is all
	FirstCalls bool // begins with a first call on each connection, and times it
}

// Begin resets the records before a window.
func (c *Client) Begin(w Window) {
	c.window = w
	for _, h := range c.byOp {
		if h != nil {
			h.Reset()
		}
	}
	if c.iterations != nil {
		c.iterations.begin()
	}
	c.live.reset()
	c.slices.reset(c.clock.Ticks(w.Duration))
	c.sampler = loop.NewSampler(w.SampleEvery, c.nonce+c.config.Seed)
	c.traced = c.sampler
	if c.stages != nil {
		c.stages.begin()
	}
	c.verify = uint32(c.config.VerifyEvery)
	c.counts = counts{} // the window may fail before it begins to measure
	if c.mesh != nil {
		c.mesh.reset()
	}
	if c.peers != nil {
		c.peers.reset()
	}
	if c.open != nil {
		c.open.reset()
	}
}

// Report returns what the client recorded in the window.
func (c *Client) Report(thread record.ThreadReport) record.ClientReport {
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
	if c.stream != nil {
		r.Starved = c.stream.Starved
	}
	r.InFlightNS = c.clock.Nanos(n.inFlight)
	if n.busyTimed > 0 {
		r.BusyNS = uint64(float64(c.clock.Nanos(n.busyTicks)) * float64(n.found) /
			float64(n.busyTimed))
	}
	c.Gaps.Report(&r.Thread)
	r.Silences = c.live.silences.report(n.window, n.ops, c.config.InFlight)
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
	if c.open != nil {
		r.Open = c.open.report(c.clock)
	}
	return r
}

func (c *Client) reportLatencies(r *record.ClientReport) {
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
		times, firsts := c.iterations.times.Report(c.clock), c.iterations.firsts.Report(c.clock)
		r.Iterations, r.FirstParts = &times, &firsts
	}
}

func (c *Client) reportMesh(r *record.ClientReport) {
	local, remote := c.mesh.local.Report(c.clock), c.mesh.remote.Report(c.clock)
	r.Local, r.Remote = &local, &remote
	for i, stage := range c.mesh.stages {
		if stage == nil || stage.Samples == 0 {
			continue
		}
		if r.Stages == nil {
			r.Stages = map[string]record.TimingReport{}
		}
		r.Stages[record.StageNames[i]] = stage.Report(c.clock)
	}
}

// reportStages reports the stages of calls over the transport, and settles their sampling.
func (c *Client) reportStages(r *record.ClientReport) {
	s := c.stages
	if s == nil {
		return
	}
	r.NoStages = s.missing
	if s.stages[0].Samples > 0 {
		r.Stages = map[string]record.TimingReport{}
		r.StageNS = float64(c.clock.Nanos(s.readCost*stampedStages*1024)) / 1024
		for i, stage := range s.stages {
			r.Stages[record.DirectStages[i]] = stage.Report(c.clock)
		}
	}
	if ops := c.counts.ops; ops > 0 {
		s.every = loop.SampleEveryFor(stageCost, float64(r.Thread.Busy(r.ElapsedNS))/float64(ops))
	}
}

// failures returns the number of each failure in the window, without those that are 0.
func (c *Client) failures() map[string]uint64 {
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
