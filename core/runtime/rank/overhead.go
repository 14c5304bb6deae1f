package rank

import (
	"context"
	"errors"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
)

// Bounds of the store behind the null transport: keys, and bytes of entries.
const (
	overheadKeys  = 1024
	overheadBytes = 16 << 20
)

// Overhead implements [Control].
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
	return record.Overhead{}, errors.New("measuring the harness: this rank has no clients")
}

// measureOverhead runs a client of the plan against the null transport on the
// calling thread.
func measureOverhead(plan record.Plan, d time.Duration) (o record.Overhead, err error) {
	restore := quietCollector()
	defer restore()
	cfg := plan.Config
	// A closed loop against one daemon, whatever the run is.
	cfg.Topology, cfg.Ranks, cfg.Daemons = config.TopologyClientServer, 2, 1
	cfg.Rate, cfg.RemoteShare = 0, config.ByHash
	cfg.Burn = 0 // which is of the run's making
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
	o.VerifyNS = verifyCost(null, c) / float64(cfg.VerifyEvery)
	return o, nil
}

// verifyCost measures what the checksum adds to the check of one response.
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
	// Whatever disturbs one of them only makes it longer: the least of several.
	with, without := cost(true), cost(false)
	for range 3 {
		with, without = min(with, cost(true)), min(without, cost(false))
	}
	return max(0, with-without)
}
