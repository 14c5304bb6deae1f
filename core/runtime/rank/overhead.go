package rank

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/client"
	"transportbench/core/runtime/daemon"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// The bounds of the null transports' store and requests: keys, bytes, and requests. Requests of the
// largest payloads would otherwise take as much memory as the client's own, and longer to make than
// the window takes.
const (
	overheadKeys     = 1024
	overheadBytes    = 16 << 20
	overheadRequests = 1024
	// overheadNear bounds the requests of an echo and a sink, so that they fit a second-level
	// cache: fetching them from farther away is the medium's work.
	overheadNear = 1 << 20
)

// overheadParts is the number of measurements of which Overhead takes the median, so that an
// interruption of one does not count.
const overheadParts = 8

// Overhead implements [record.Control].
func (r *Rank) Overhead(ctx context.Context, d time.Duration) (o record.Overhead, err error) {
	if len(r.threads) == 0 {
		return o, errors.New("measure the harness: the rank is not prepared")
	}
	// No collection begins beside the measurement, not even from what it allocates.
	restore := pauseCollector()
	defer restore()
	daemons, clients := r.apart()
	threads := slices.Concat(daemons, clients)
	err = eachOf(ctx, threads, func(t *thread) (err error) {
		if t.overhead == nil {
			t.overhead, err = newOverhead(r.planOf(t), t.id.IsDaemon(), r.transport.Properties(),
				t.batch())
		}
		return err
	})
	if err != nil {
		return o, err
	}
	every := cmp.Or(max(r.sampleEvery, r.plan.Config.SampleEvery), warmupSampling)
	costs := make([]float64, len(threads))
	err = eachOf(ctx, threads, func(t *thread) (err error) {
		costs[slices.Index(threads, t)], err = t.overhead.measure(every, d)
		return err
	})
	if err != nil { // a thread may still write its cost
		return o, err
	}
	o.DaemonNS, o.ClientNS = record.Median(costs[:len(daemons)]),
		record.Median(costs[len(daemons):])
	o.PerOpNS = o.ClientNS + o.DaemonNS
	for _, t := range clients {
		o.VerifyNS, o.StampNS = t.overhead.verifyNS, t.overhead.stampNS
	}
	return o, nil
}

// planOf returns the plan with the load of one thread: that of a client's class, if it has one.
func (r *Rank) planOf(t *thread) record.Plan {
	plan := r.plan
	plan.Config = plan.Config.OfClient(t.id.Client)
	return plan
}

// apart returns one daemon and one client for each processor. More would only wait for a processor,
// and hundreds of loops on the null transport exhaust a small machine's memory.
func (r *Rank) apart() (daemons, clients []*thread) {
	for _, t := range r.threads {
		list := &clients
		if t.id.IsDaemon() {
			list = &daemons
		}
		shares := func(other *thread) bool { return t.cpu >= 0 && other.cpu == t.cpu }
		if len(*list) < runtime.NumCPU() && !slices.ContainsFunc(*list, shares) {
			*list = append(*list, t)
		}
	}
	return daemons, clients
}

// batch returns client.Batch or daemon.Batch of the last window, which may be the warm-up; 0 if
// there was none.
func (t *thread) batch() float64 {
	if t.daemon != nil {
		return t.daemon.Batch()
	}
	return t.client.Batch()
}

// overhead is the loop of a client or a daemon on a null transport. It is made once, because that
// takes longer than measuring it.
type overhead struct {
	client *client.Client // of the requests, for a daemon
	daemon *daemon.Daemon // nil to measure the client
	null   transport.Worker

	verifyNS, stampNS float64
}

// newOverhead returns the loop of a client or of a daemon of the plan. Call it on the thread that
// will measure it. batch is the mean number of calls that a poll of the transport completes or
// brings, because an iteration's cost is shared by those; 0 if it is not known. If values stay in
// device memory, the daemon does not see them.
func newOverhead(plan record.Plan, isDaemon bool, properties transport.Properties,
	batch float64) (o *overhead, err error) {
	cfg := plan.Config
	n, repeated := cfg.Requests()
	open := wiring.Wiring{Config: cfg}.OpenRequests()
	if open == 0 { // one rank of mesh-proxied: its own clients' requests
		open = cfg.CallsPerConnection()
	}
	// Always a closed loop between one client and one daemon, without the deliberate slow-down.
	cfg.Topology, cfg.Ranks, cfg.Daemons, cfg.Clients = config.TopologyClientServer, 2, 1, 1
	cfg.Servers, cfg.Rate, cfg.RemoteShare = 0, 0, config.ByHash
	if cfg.Traffic != "" {
		cfg.Traffic = config.TrafficIncast + ":1"
	}
	cfg.Burn, cfg.Replay, cfg.Part = 0, "", nil // requests like those of a trace are drawn
	cfg.ReadDelay, cfg.WriteDelay, cfg.LookupDelay = "", "", ""
	cfg.StorageLanes, cfg.WriteLanes = 0, 0
	cfg.Keys = max(1, min(cfg.Keys, overheadKeys, overheadBytes/(cfg.LargestMessage())))
	if repeated {
		n, _ = cfg.Requests()
	}
	if isDaemon {
		cfg.InFlight = min(open, loop.MaxBatch)
	}
	if batch > 0 { // the null transports answer and bring all calls at once
		cfg.InFlight = min(cfg.InFlight, max(1, int(math.Round(batch))))
	}
	fit := overheadBytes / cfg.LargestMessage()
	cfg.InFlight = min(cfg.InFlight, max(1, fit/2))
	n = min(n, max(fit, 2*cfg.InFlight))
	switch {
	case !isDaemon:
	case cfg.Service != config.ServiceStore:
		n = max(1, min(n, overheadNear/cfg.LargestMessage()))
	case !repeated:
		n = max(n, min(overheadRequests, fit))
	}
	null, err := newNullServer(cfg)
	if err != nil {
		return nil, err
	}
	o = &overhead{null: null}
	w := wiring.Wiring{Config: cfg, Rank: 1, Kinds: plan.Kinds}
	if o.client, err = client.NewWith(w, 0, plan.Idle, null, n, repeated); err != nil {
		return nil, err
	}
	if isDaemon {
		worker := &nullClient{requests: o.client.Payloads(), batch: cfg.InFlight}
		o.null = worker
		o.daemon, err = daemon.New(wiring.Wiring{Config: cfg}, 0, plan.Idle, worker)
		if err != nil {
			return o, err
		}
		// The rate floor of memory reads its payloads too: that is when they arrive. Those of
		// sockets and devices do not.
		worker.device = properties.Capabilities.DeviceMemory
		o.daemon.LeaveValues(worker.device, properties.Medium == transport.MediumMemory)
		return o, nil
	}
	o.stampNS = client.SampleCost(machine.Calibrated())
	if cfg.Service == config.ServiceStore && cfg.ReadsValues() {
		o.verifyNS = verifyCost(null, &cfg) / float64(cfg.VerifyEvery)
	}
	return o, nil
}

func (o *overhead) close() error {
	if o.daemon == nil {
		return o.client.Close()
	}
	return errors.Join(o.daemon.Close(), o.client.Close())
}

// measure returns the nanoseconds of an operation: the median over parts of d.
func (o *overhead) measure(every int, d time.Duration) (float64, error) {
	if o.daemon == nil {
		return o.measureClient(every, d)
	}
	return o.measureDaemon(d)
}

func (o *overhead) measureClient(every int, d time.Duration) (float64, error) {
	c := o.client
	c.Begin(client.Window{SampleEvery: every, Duration: d})
	var s loop.State
	s.Advance(record.StateMeasuring)
	clock := machine.Calibrated()
	if err := c.Load(clock.Now()); err != nil {
		return 0, err
	}
	cost, err := inParts(clock, d, func(n int) (uint64, error) { return c.Iterate(&s, n) })
	return cost, errors.Join(err, c.Drain(&s))
}

func (o *overhead) measureDaemon(d time.Duration) (float64, error) {
	var s loop.State
	s.Advance(record.StateMeasuring)
	o.daemon.Begin()
	return inParts(machine.Calibrated(), d, func(n int) (uint64, error) {
		for range n {
			if s.Measuring() { // as in run
				if err := o.daemon.Step(); err != nil {
					return 0, err
				}
			}
		}
		return o.daemon.Requests(), nil
	})
}

// overheadSteps is the largest number of iterations between two readings of the clock, so that the
// readings, which are not part of the harness, hardly count. The iterations take at most the share
// overheadStride of a part.
const (
	overheadSteps  = 256
	overheadStride = 1. / 32
)

// overheadLimit bounds the time of a measurement, as a multiple of the planned time. Only
// operations that take hundreds of milliseconds reach it. They have fewer parts then, and an
// interruption is short beside them.
const overheadLimit = 32

// inParts calls steps, which runs n iterations and returns the operations done so far, and returns
// the median time of an operation.
func inParts(clock *machine.Clock, d time.Duration, steps func(n int) (uint64, error)) (float64,
	error) {
	length := clock.Ticks(d) / overheadParts
	parts := make([]float64, 0, overheadParts)
	before, n := uint64(0), 1
	start := clock.Now()
	end := start + overheadLimit*clock.Ticks(d)
	for len(parts) == 0 || len(parts) < overheadParts && start < end {
		done, err := steps(n)
		if err != nil {
			return 0, err
		}
		spent := clock.Now() - start
		if n < overheadSteps && float64(2*spent) < overheadStride*float64(length) {
			n *= 2
		}
		if spent >= length && done > before {
			parts = append(parts, float64(clock.Nanos(spent))/float64(done-before))
			start, before = clock.Now(), done
		}
	}
	return record.Median(parts), nil
}

// verifyCost measures how many nanoseconds the checksum adds to the check of one response.
func verifyCost(null *nullServer, cfg *config.Config) float64 {
	clock, size := machine.Calibrated(), kv.AnySize
	if cfg.ValueSize.Fixed() {
		size = cfg.ValueSize.Max()
	}
	const budget = time.Millisecond / 20
	cost := func(sum bool) float64 {
		start, limit := clock.Now(), clock.Ticks(budget)
		rounds, elapsed := 0, uint64(0)
		for n := 1; elapsed < limit; n = min(2*n, 16) { // large values take long
			for range n {
				key := uint64(rounds) % uint64(cfg.Keys)
				kv.Check(null.entry(key), key, 0, size, sum)
				rounds++
			}
			elapsed = clock.Now() - start
		}
		return float64(clock.Nanos(elapsed)) / float64(rounds)
	}
	// Interruptions only make a measurement longer, so take the minimum.
	with, without := cost(true), cost(false)
	for range 3 {
		with, without = min(with, cost(true)), min(without, cost(false))
	}
	return max(0, with-without)
}

// nullServer is the worker of a client. It answers every call at the next poll, as a daemon would.
// A client that runs on it measures the client's part of the harness alone.
type nullServer struct {
	nullWorker
	posted  []transport.Op // since the last poll: the client's, or copied
	copied  []transport.Op
	service loop.Service
	headers [][kv.HeaderSize]byte // responses of a sink
	next    int                   // in headers, circular
	stride  int
	entries []byte // the responses to a GET of each key, stride bytes apart
	lengths []int  // of entries
}

// nullWorker has the methods that do nothing.
type nullWorker struct{}

func (nullWorker) Address() []byte { return nil }

func (nullWorker) Connect(context.Context, transport.PeerID, []byte) error { return nil }

func (nullWorker) Flush() error { return nil }

func (nullWorker) Close() error { return nil }

var (
	_ transport.Worker = (*nullServer)(nil)
	_ transport.Worker = (*nullClient)(nil)
)

func newNullServer(cfg config.Config) (*nullServer, error) {
	w := &nullServer{
		copied: make([]transport.Op, 0, cfg.InFlight), service: loop.ServiceOf(cfg),
		headers: make([][kv.HeaderSize]byte, cfg.InFlight), stride: cfg.LargestMessage(),
	}
	if w.service != loop.ServiceStore {
		return w, nil
	}
	store, err := kv.NewStore(cfg.Keys, cfg.ValueSize.Max())
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var header [kv.HeaderSize]byte
	var request [kv.HeaderSize]byte
	w.entries = make([]byte, cfg.Keys*w.stride)
	sizes := workload.NewSizes(cfg.ValueSize)
	for key := range uint64(cfg.Keys) {
		if err := store.Fill(key, sizes.At(key)); err != nil {
			return nil, err
		}
		entry, _ := store.Serve(kv.EncodeGet(request[:], key), &header)
		copy(w.entries[int(key)*w.stride:], entry)
		w.lengths = append(w.lengths, len(entry))
	}
	return w, nil
}

func (w *nullServer) entry(key uint64) []byte {
	at := int(key) * w.stride
	return w.entries[at : at+w.lengths[key]]
}

// Post keeps the client's ops, which do not change before the next poll. With another Post before
// that, it copies them.
func (w *nullServer) Post(ops []transport.Op) (int, error) {
	if len(w.posted) == 0 {
		w.posted = ops
		return len(ops), nil
	}
	if &w.posted[0] != &w.copied[:1][0] {
		w.posted = append(w.copied, w.posted...)
	}
	w.posted = append(w.posted, ops...)
	return len(ops), nil
}

func (w *nullServer) response(request []byte) []byte {
	if w.service == loop.ServiceSink {
		header := &w.headers[w.next]
		if w.next++; w.next == len(w.headers) {
			w.next = 0
		}
		var sink kv.Sink
		response, _ := sink.ServeHead(request, len(request), header)
		return response
	}
	// The first word is the key, shifted by the byte of the operation.
	key := binary.LittleEndian.Uint64(request) >> 8
	size := w.lengths[key]
	if !kv.IsGet(request) { // all other responses are a header alone
		size = kv.HeaderSize
	}
	at := int(key) * w.stride
	return w.entries[at : at+size]
}

func (w *nullServer) Poll(events []transport.Event) (int, error) {
	ops := w.posted
	if len(ops) > len(events) {
		ops = ops[:len(events)]
	}
	for i := range ops {
		op, e := &ops[i], &events[i]
		response := op.Payload
		if w.service != loop.ServiceEcho {
			response = w.response(response)
		}
		e.Kind = transport.EventResponse
		e.Peer = op.Peer
		e.Token = op.Token
		e.Payload = response
		e.Size = len(response)
	}
	if len(ops) == len(w.posted) {
		w.posted = w.posted[:0]
	} else { // the client may use its slice again before the next poll
		w.posted = append(w.copied, w.posted[len(ops):]...)
	}
	return len(ops), nil
}

// nullClient is the worker of a daemon. It delivers as many requests as can be open whenever all
// are answered. A daemon that runs on it measures the daemon's part of the harness alone.
type nullClient struct {
	nullWorker
	requests [][]byte
	next     int  // in requests, circular
	batch    int  // requests that can be open
	open     int  // requests without a reply
	device   bool // deliver only the header
}

func (w *nullClient) Post(ops []transport.Op) (int, error) {
	w.open -= len(ops)
	return len(ops), nil
}

func (w *nullClient) Poll(events []transport.Event) (int, error) {
	if w.open > 0 {
		return 0, nil
	}
	next := w.next
	for i := range events[:min(len(events), w.batch)] {
		e, request := &events[i], w.requests[next]
		e.Kind = transport.EventRequest
		e.Token = transport.Token(i)
		e.Payload = request
		e.Size = len(request)
		if w.device {
			e.Payload = request[:kv.HeaderSize]
		}
		if next++; next == len(w.requests) {
			next = 0
		}
		w.open++
	}
	w.next = next
	return w.open, nil
}
