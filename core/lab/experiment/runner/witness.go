package runner

import (
	"context"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/witness"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// findWitness finds the benchmark that measures what this run does, if the run was asked for one.
func (b *bench) findWitness(ctx context.Context) {
	if !b.req.Witness || b.unwitnessed != "" {
		return
	}
	pairs := callingPairs(&b.req, b.cfg, b.plans)
	if len(pairs) == 0 {
		b.unwitnessed = "the threads of the run share a processor; a reference tool needs two"
		return
	}
	if far, _ := partition(pairs, b.req.crossing); len(far) > 0 {
		pairs = far
	}
	server, caller := pairs[0].server, pairs[0].caller
	serving, calling := b.req.hostOf(server.Rank), b.req.hostOf(caller.Rank)
	hosts := b.req.hosts()
	opened := b.prepared[server.Rank].Properties
	address := ""
	if serving != calling {
		address = hosts[serving].Reach
	}
	load := witnessLoad(b.cfg, b.cfg.Options[b.req.Roles.Address])
	load.SHA256, load.Streams = b.req.Plugin.SHA256, b.cfg.Options[b.req.Roles.Streams]
	load.Provider, load.Medium, load.Address = opened.Provider, opened.Medium, address
	load.Daemon = witness.End{CPU: b.cpuOf(server.Rank, server.Daemon), Reference: opened.Reference}
	load.Client = witness.End{CPU: b.cpuOf(caller.Rank, b.indexOf(pairs[0])),
		Reference: b.prepared[caller.Rank].Properties.Reference}
	b.witness, b.unwitnessed = witness.Find(ctx, b.req.References, load, hosts[serving].Witness,
		hosts[calling].Witness)
	b.progress.extend(2 * time.Duration(b.cfg.Repeats) * b.witness.Expected())
}

// witnessLoad returns what is known before a run of the load for its witness.
func witnessLoad(c config.Config, bound string) witness.Load {
	forth, back := c.Payloads()
	return witness.Load{
		Transport: c.Transport, Bound: bound,
		Size: int(max(forth, back)), Smaller: int(min(forth, back)), InFlight: c.CallsPerPair(),
	}
}

// cpuOf returns the processor of a polling thread.
func (b *bench) cpuOf(rank, thread int) int { return b.plans[rank].CPUs[thread] }

// indexOf returns the index of a pair's caller among the polling threads of its rank.
func (b *bench) indexOf(pair callingPair) int {
	if pair.caller.IsDaemon() {
		return pair.caller.Daemon
	}
	daemons, _ := b.cfg.Threads(pair.caller.Rank)
	return daemons + pair.caller.Client
}

// readWitness takes a reading of the witness if there is one. After one that fails there are no
// others: it is not what the run is about, and may take long to fail.
func (b *bench) readWitness(ctx context.Context, nth int) (*transport.Floor, error) {
	if b.witness == nil || b.unwitnessed != "" {
		return nil, nil
	}
	b.progress.enter(StepWitness, nth, b.witness.Expected())
	reading, err := b.witness.Measure(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		b.unwitnessed = err.Error()
		return nil, nil
	}
	return &reading, nil
}

// witnessed returns the witness for the result, or nil if none was asked for.
func (b *bench) witnessed() *result.Witness {
	if !b.req.Witness {
		return nil
	}
	w := new(result.Witness)
	if b.witness != nil {
		w = b.witness.Result()
	}
	w.Missing = b.unwitnessed
	return w
}
