package rank

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// The bounds of the null transport's store: keys, and bytes of entries.
const (
	overheadKeys  = 1024
	overheadBytes = 16 << 20
)

// Overhead implements [record.Control].
func (r *Rank) Overhead(ctx context.Context, d time.Duration) (record.Overhead, error) {
	for _, t := range r.threads {
		if t.client == nil {
			continue
		}
		var o record.Overhead
		err := t.do(ctx, func() (err error) {
			o, err = measureOverhead(r.plan, d)
			return err
		})
		return o, err
	}
	return record.Overhead{}, errors.New("measure the harness: this rank has no clients")
}

// measureOverhead runs a client of the plan against the null transport, on the calling thread.
func measureOverhead(plan record.Plan, d time.Duration) (o record.Overhead, err error) {
	restore := pauseCollector()
	defer restore()
	cfg := plan.Config
	// Always a closed loop against one daemon, without the deliberate slow-down.
	cfg.Topology, cfg.Ranks, cfg.Daemons = config.TopologyClientServer, 2, 1
	cfg.Rate, cfg.RemoteShare = 0, config.ByHash
	cfg.Burn = 0
	cfg.Keys = max(1, min(cfg.Keys, overheadKeys, overheadBytes/(cfg.LargestMessage())))
	null, err := newNullWorker(cfg)
	if err != nil {
		return o, err
	}
	c, err := newClient(wiring{cfg, 1}, 0, plan.Idle, null)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	clock := machine.Calibrated()
	o.StampNS = sampleCost(clock)
	every := cfg.SampleEvery
	var s state
	for range 2 { // the first round chooses the sampling and warms the caches
		if every == 0 {
			every = warmupSampling
		}
		c.begin(every, d/2)
		s.reset()
		s.advance(record.StateMeasuring)
		timer := time.AfterFunc(d/2, func() { s.advance(record.StateDraining) })
		err := c.run(&s, func() {}, func() {})
		timer.Stop()
		if err != nil {
			return o, err
		}
		o.PerOpNS = float64(clock.Nanos(c.counts.window)) / float64(max(c.counts.ops, 1))
		if cfg.SampleEvery == 0 {
			every = sampleEveryFor(o.StampNS, o.PerOpNS)
		}
	}
	if cfg.Service == config.ServiceStore {
		o.VerifyNS = verifyCost(null, c) / float64(cfg.VerifyEvery)
	}
	return o, nil
}

// verifyCost measures how many nanoseconds the checksum adds to the check of one response.
func verifyCost(null *nullWorker, c *client) float64 {
	const budget = time.Millisecond / 2
	cost := func(sum bool) float64 {
		start, limit := c.clock.Now(), c.clock.Ticks(budget)
		rounds, elapsed := 0, uint64(0)
		for elapsed < limit {
			for range 16 {
				key := uint64(rounds) % uint64(c.cfg.Keys)
				kv.Check(null.entry(key), key, 0, int(c.readSize), sum)
				rounds++
			}
			elapsed = c.clock.Now() - start
		}
		return float64(c.clock.Nanos(elapsed)) / float64(rounds)
	}
	// Interruptions only make a measurement longer, so take the minimum.
	with, without := cost(true), cost(false)
	for range 3 {
		with, without = min(with, cost(true)), min(without, cost(false))
	}
	return max(0, with-without)
}

// nullWorker completes every call when it is posted, with the response of a store. A client
// that runs on it measures the harness alone.
type nullWorker struct {
	service service
	headers [][kv.HeaderSize]byte // responses of a sink
	next    int                   // in headers, circular
	stride  int
	entries []byte // the responses to a GET of each key, stride bytes apart
	lengths []int  // of entries
	ready   []transport.Event
}

var _ transport.Worker = (*nullWorker)(nil)

func newNullWorker(cfg config.Config) (*nullWorker, error) {
	w := &nullWorker{
		stride:  cfg.LargestMessage(),
		ready:   make([]transport.Event, 0, cfg.InFlight),
		service: serviceOf(cfg), headers: make([][kv.HeaderSize]byte, cfg.InFlight),
	}
	if w.service != serviceStore {
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

func (w *nullWorker) entry(key uint64) []byte {
	at := int(key) * w.stride
	return w.entries[at : at+w.lengths[key]]
}

func (w *nullWorker) Address() []byte { return nil }

func (w *nullWorker) Connect(context.Context, transport.PeerID, []byte) error { return nil }

func (w *nullWorker) Post(ops []transport.Op) (int, error) {
	for i := range ops {
		op := &ops[i]
		response := w.response(op.Payload)
		w.ready = w.ready[:len(w.ready)+1]
		e := &w.ready[len(w.ready)-1]
		e.Kind = transport.EventResponse
		e.Peer = op.Peer
		e.Token = op.Token
		e.Payload = response
		e.Size = len(response)
	}
	return len(ops), nil
}

func (w *nullWorker) response(request []byte) []byte {
	switch w.service {
	case serviceEcho:
		return request
	case serviceSink:
		header := &w.headers[w.next]
		if w.next++; w.next == len(w.headers) {
			w.next = 0
		}
		var sink kv.Sink
		response, _ := sink.ServeHead(request, len(request), header)
		return response
	}
	// The first word is the key, shifted by the byte of the operation.
	response := w.entry(binary.LittleEndian.Uint64(request) >> 8)
	if !kv.IsGet(request) { // all other responses are a header alone
		response = response[:kv.HeaderSize]
	}
	return response
}

func (w *nullWorker) Flush() error { return nil }

func (w *nullWorker) Poll(events []transport.Event) (int, error) {
	n := copy(events, w.ready)
	w.ready = w.ready[:copy(w.ready, w.ready[n:])]
	return n, nil
}

func (w *nullWorker) Close() error { return nil }
