package accept

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

const (
	// tick is by how much processor time may exceed the time on the clock: the kernel counts it in
	// ticks, up to 10 ms long, and several threads end theirs at once.
	tick = 100 * time.Millisecond
	// mostProcessors bounds the processors of a machine.
	mostProcessors = 16384
	// mostGaps bounds the gaps of a thread that a report lists.
	mostGaps = 64
	// longestFact bounds what a path states, such as a list of lanes.
	longestFact = 4096
	// mostSampling bounds the distance between two samples.
	mostSampling = 1 << 20
)

// window bounds the report of one window.
type window struct {
	plan *record.Plan
	spec *record.Window
	took time.Duration // on the host: from the call of Run to the report
	// failed means that the rank failed, so that threads may not have begun to measure.
	failed bool
	// clients is the number of clients of the rank, of all classes. They may share a thread.
	clients int
}

// most returns the longest time in nanoseconds that anything in the window may have taken. No thread
// counts more than one of anything per nanosecond, so it also bounds counts.
func (w *window) most() uint64 { return limitOf(w.took) }

func (w *window) check(r *record.Report) error {
	c := new(checker)
	p := c.at("report")
	daemons, clients := w.plan.Config.Threads(w.plan.Rank)
	w.clients = clients
	within(p, "rank", r.Rank, w.plan.Rank, w.plan.Rank)
	p.length("clients", len(r.Clients), clients)
	p.length("daemons", len(r.Daemons), daemons)
	switch {
	case w.spec.Warmup:
		within(p, "sample_every", r.SampleEvery, 0, max(mostSampling, w.spec.SampleEvery))
	case w.spec.SampleEvery > 0:
		within(p, "sample_every", r.SampleEvery, w.spec.SampleEvery, w.spec.SampleEvery)
	}
	for i := range r.Clients {
		own, plan := *w, *w.plan
		plan.Config, own.plan = plan.Config.OfClient(i), &plan
		own.client(p.index("clients", i), &r.Clients[i])
	}
	for i := range r.Daemons {
		w.daemon(p.index("daemons", i), &r.Daemons[i])
	}
	w.process(p.field("process"), &r.Process)
	w.storm(p, r.Storm)
	if r.Setup != nil {
		setup(p.field("setup"), r.Setup)
	}
	if r.Carried != nil {
		carried(p.field("carried"), r.Carried)
	}
	return c.err()
}

// carried checks the counters of the kernel.
func carried(p part, t *record.Carried) {
	p.atMostLong("counters", len(t.Counters), mostEntries)
	if p.first != nil {
		return
	}
	for i := range t.Counters {
		c, counter := p.index("counters", i), &t.Counters[i]
		c.oneOf("kind", counter.Kind, []string{record.KindTCP, record.KindUDP, record.KindInterface, record.KindPort})
		c.text("name", counter.Name)
		c.atMost("sent_bytes", counter.Sent, exact)
		c.atMost("received_bytes", counter.Received, exact)
		c.atMost("sent_packets", counter.SentPackets, exact)
		c.atMost("received_packets", counter.ReceivedPackets, exact)
		c.atMost("retransmitted_packets", counter.Retransmitted, exact)
		c.atMost("dropped_packets", counter.Dropped, exact)
	}
}

// paths checks what a transport states to carry its bytes.
func paths(p part, list []transport.Path) {
	p.atMostLong("paths", len(list), mostEntries)
	if p.first != nil {
		return
	}
	for i := range list {
		p.index("paths", i).way(&list[i])
	}
}

// way checks one path.
func (p part) way(path *transport.Path) {
	p.text("carrier", path.Carrier)
	for _, one := range [...][2]string{{"local", path.Local}, {"remote", path.Remote}, {"interface", path.Interface}, {"device", path.Device}} {
		if one[1] != "" {
			p.text(one[0], one[1])
		}
	}
	within(p, "port", path.Port, 0, 255)
	within(p, "overhead_bytes", path.Overhead, 0, 1<<20)
	p.atMostLong("facts", len(path.Facts), mostEntries)
	for _, name := range slices.Sorted(maps.Keys(path.Facts)) {
		value := path.Facts[name]
		if p.text("facts", name); len(value) > longestFact {
			p.wrong("facts["+quoted(name)+"]", quoted(value), fmt.Sprintf("at most %d bytes", longestFact))
		}
	}
}

// storm checks the connections of a storm.
func (w *window) storm(p part, s *record.StormReport) {
	cfg := &w.plan.Config
	p.present("storm", s != nil, cfg.Traffic.StormRate() > 0 && cfg.Calls(w.plan.Rank) && !w.spec.Warmup)
	if s == nil {
		return
	}
	p = p.field("storm")
	p.atMost("due", s.Due, w.most())
	p.atMost("connections", s.Connections, s.Due)
	p.atMost("failed", s.Failed, s.Due-min(s.Connections, s.Due))
	within(p, "connect.samples", s.Connect.Samples, s.Connections, s.Connections)
	within(p, "close.samples", s.Close.Samples, s.Connections, s.Connections)
	within(p, "leaked_descriptors", s.Leaked, 0, 1<<20)
	w.timing(p.field("connect"), &s.Connect)
	w.timing(p.field("close"), &s.Close)
}

// setup checks what the setup of a rank took. What is missing is 0, so only sums and counts that
// exceed each other are impossible.
func setup(p part, s *record.RankSetup) {
	paths(p, s.Paths)
	p.atMost("open_ns", s.OpenNS, exact)
	p.atMost("workers_ns", s.WorkersNS, exact)
	p.atMost("registered_bytes", s.RegisteredBytes, exact)
	p.atMost("connect_ns", s.ConnectNS, exact)
	if p.first != nil { // the sum below could overflow
		return
	}
	p.atMost("register_ns", s.RegisterNS, s.OpenNS+s.WorkersNS+s.ConnectNS)
	p.atMost("connections", s.Connections, s.ConnectNS)
	p.atMost("connect_max_ns", s.ConnectMaxNS, s.ConnectNS)
	p.atMost("connect_all_ns", s.ConnectAllNS, exact)
	p.atMost("first_calls", s.FirstCalls, s.Connections)
	p.atMost("first_call_max_ns", s.FirstCallMaxNS, exact)
	p.atMost("first_call_ns", s.FirstCallNS, s.FirstCallMaxNS)
}

// elapsed checks the length of a thread's window. It is not 0 unless the window failed.
func (w *window) elapsed(p part, ns uint64) {
	least := uint64(1)
	if w.failed {
		least = 0
	}
	within(p, "elapsed_ns", ns, least, w.most())
}

func (w *window) client(p part, r *record.ClientReport) {
	cfg, elapsed, inFlight := &w.plan.Config, r.ElapsedNS, uint64(max(w.plan.Config.InFlight, 0))
	w.elapsed(p, elapsed)
	p.atMost("reads", r.Reads, elapsed)
	p.atMost("writes", r.Writes, elapsed)
	p.atMost("lookups", r.Lookups, elapsed)
	p.atMost("issued", r.Issued, w.most())
	p.atMost("drained", r.Drained, inFlight)
	p.atMost("lost", r.Lost, inFlight)
	if p.first != nil { // the sum below could overflow
		return
	}
	p.atMost("reads+writes+lookups", r.Ops(), min(elapsed, r.Issued))
	// A read-modify-write moves a value twice, and so does an echo.
	within(p, "payload_bytes", float64(r.PayloadBytes), 0, float64(2*r.Ops()+inFlight)*float64(cfg.ValueSize.Max()))
	p.atMost("payload_bytes", r.PayloadBytes, exact)
	p.atMost("checksummed_bytes", r.ChecksummedBytes, exact)
	p.atMost("verified_keys", r.VerifiedKeys, r.Ops())
	p.atMost("verified_checksums", r.VerifiedSums, w.most())
	p.atMostLong("failures", len(r.Failures), mostEntries)
	for _, name := range slices.Sorted(maps.Keys(r.Failures)) {
		p.atMost("failures["+quoted(name)+"]", r.Failures[name], w.most())
	}
	p.atMost("back_pressure", r.BackPressure, w.most())
	p.atMost("polls", r.Polls, w.most())
	p.atMost("empty_polls", r.EmptyPolls, r.Polls)
	within(p, "in_flight_ns", float64(r.InFlightNS), 0, float64(inFlight)*float64(elapsed+1))
	p.atMost("in_flight_ns", r.InFlightNS, exact)
	p.atMost("busy_ns", r.BusyNS, exact)
	w.latencies(p, r)
	w.optional(p, r)
	w.slices(p, r)
	w.gaps(p, "silences", r.Silences)
	w.thread(p, &r.Thread)
	counters(p, r.Transport, r.Series)
	w.trace(p, r.Trace)
}

// latencies checks the latencies of all sampled operations, and of the reads and writes among them.
func (w *window) latencies(p part, r *record.ClientReport) {
	p.atMost("samples", r.Samples, r.Ops())
	w.timing(p.field("latency"), &record.TimingReport{Histogram: r.Latency, MeanNS: r.MeanNS, Samples: r.Samples})
	sampled := uint64(0)
	for _, one := range [...][2]string{{"read_latency", r.ReadLatency}, {"write_latency", r.WriteLatency}} {
		name, text := one[0], one[1]
		if h := w.histogram(p, name, text); h != nil {
			p.atMost(name, h.Count(), r.Samples)
			sampled += min(h.Count(), r.Samples)
		}
	}
	p.atMost("read_latency+write_latency", sampled, r.Samples)
}

// optional checks what only some configurations have.
func (w *window) optional(p part, r *record.ClientReport) {
	cfg := &w.plan.Config
	p.present("local", r.Local != nil, cfg.Mesh())
	p.present("remote", r.Remote != nil, cfg.Mesh())
	p.present("open_loop", r.Open != nil, cfg.Rate != 0)
	p.present("iterations", r.Iterations != nil, cfg.Iteration() > 0)
	optionalTiming := func(name string, t *record.TimingReport) {
		if t != nil {
			w.timing(p.field(name), t)
		}
	}
	optionalTiming("local", r.Local)
	optionalTiming("remote", r.Remote)
	optionalTiming("iterations", r.Iterations)
	optionalTiming("first_parts", r.FirstParts)
	if o := r.Open; o != nil {
		open := p.field("open_loop")
		// Poisson arrivals vary; a few are due although far less than one is expected.
		due := float64(cfg.Rate) / float64(max(cfg.TotalClients(), 1)) * float64(w.most()) / 1e9
		within(open, "scheduled", float64(o.Scheduled), 0, 1000+2*due)
		w.timing(open.field("response"), &o.Response)
		w.timing(open.field("lag"), &o.Lag)
	}
	w.peers(p, r)
	w.kinds(p, r)
	known := record.DirectStages
	if cfg.Proxied() {
		known = record.StageNames
	}
	w.timings(p, "stages", r.Stages, known)
	within(p, "stage_cost_ns", r.StageNS, 0, float64(w.most()))
	var mixed []string
	if len(cfg.Mix)+len(cfg.Pattern) > 0 {
		mixed = config.OpNames()
	}
	for _, name := range slices.Sorted(maps.Keys(r.Operations)) {
		o := r.Operations[name]
		if p.oneOf("operations", name, mixed); p.first != nil {
			return
		}
		op := p.key("operations", name)
		op.atMost("count", o.Count, r.Ops())
		op.atMost("latency.samples", o.Latency.Samples, o.Count)
		w.timing(op.field("latency"), &o.Latency)
	}
}

// peers checks the operations by the rank that was called.
func (w *window) peers(p part, r *record.ClientReport) {
	n := 0
	if w.plan.Config.Traffic != "" {
		n = w.plan.Config.ServingRanks()
	}
	p.length("peers", len(r.Peers), n)
	if p.first != nil {
		return
	}
	left := r.Ops()
	for i := range r.Peers {
		peer := p.index("peers", i)
		within(peer, "rank", r.Peers[i].Rank, i, i)
		peer.atMost("count", r.Peers[i].Count, left)
		left -= min(r.Peers[i].Count, left)
		peer.atMost("latency.samples", r.Peers[i].Latency.Samples, r.Peers[i].Count)
		w.timing(peer.field("latency"), &r.Peers[i].Latency)
	}
	if n > 0 {
		within(p, "ops of no peer", left, 0, 0)
	}
}

// kinds checks the operations by the kind of call.
func (w *window) kinds(p part, r *record.ClientReport) {
	if len(r.Kinds) == 0 {
		return // plugins of an older runtime do not count them
	}
	n := 0
	if len(w.plan.Kinds) > 0 {
		n = int(record.CallKinds)
	}
	p.length("kinds", len(r.Kinds), n)
	if p.first != nil {
		return
	}
	left := r.Ops()
	for i, k := range r.Kinds {
		kind := p.index("kinds", i)
		kind.atMost("count", k.Count, left)
		left -= min(k.Count, left)
		kind.atMost("latency.samples", k.Latency.Samples, k.Count)
		w.timing(kind.field("latency"), &k.Latency)
	}
	within(p, "ops of no kind", left, 0, 0)
}

// slices checks the operations by the part of the window.
func (w *window) slices(p part, r *record.ClientReport) {
	if len(r.Slices) == 0 {
		return // the window was too short
	}
	p.length("slices", len(r.Slices), record.Slices)
	left := r.Ops()
	for _, n := range r.Slices {
		p.atMost("slices", n, left)
		left -= min(n, left)
	}
}

func (w *window) daemon(p part, r *record.DaemonReport) {
	elapsed, value := r.ElapsedNS, float64(w.plan.Config.ValueSize.Max())
	w.elapsed(p, elapsed)
	p.atMost("loops", r.Loops, elapsed)
	p.atMost("empty_loops", r.EmptyLoops, r.Loops)
	p.atMost("requests", r.Requests, elapsed)
	p.atMost("gets", r.Gets, r.Requests)
	p.atMost("puts", r.Puts, r.Requests-min(r.Gets, r.Requests))
	p.atMost("lookups", r.Lookups, r.Requests)
	p.atMost("rejected", r.Rejected, r.Requests)
	p.atMost("served", r.Served, w.most())
	within(p, "stored_bytes", float64(r.StoredBytes), 0, value*float64(r.Requests))
	p.atMost("stored_bytes", r.StoredBytes, exact)
	p.atMost("checksummed_bytes", r.ChecksummedBytes, exact)
	p.atMost("flushes", r.Flushes, w.most())
	p.atMost("back_pressure", r.BackPressure, w.most())
	p.present("proxy", r.Proxy != nil, w.plan.Config.Proxied())
	if x := r.Proxy; x != nil {
		proxy := p.field("proxy")
		proxy.atMost("from_clients", x.FromClients, w.most())
		proxy.atMost("local", x.Local, w.most())
		proxy.atMost("remote", x.Remote, w.most())
		proxy.atMost("responses", x.Responses, w.most())
		proxy.atMost("incoming", x.Incoming, w.most())
		proxy.atMost("held", x.Held, w.most())
	}
	p.present("delegation", r.Delegation != nil, w.plan.Config.Delegate)
	if x := r.Delegation; x != nil {
		delegation := p.field("delegation")
		delegation.atMost("sent", x.Sent, w.most())
		delegation.atMost("served", x.Served, w.most())
	}
	p.present("storage", r.Storage != nil, w.plan.Config.Stored())
	if s := r.Storage; s != nil {
		storage := p.field("storage")
		within(storage, "lanes", s.Lanes, w.plan.Config.StorageLanes, w.plan.Config.StorageLanes)
		storage.atMost("reads", s.Reads, w.most())
		storage.atMost("writes", s.Writes, w.most())
		storage.atMost("busy_ns", s.BusyNS, exact)
		storage.atMost("wait_ns", s.WaitNS, exact)
		within(storage, "most_queued", s.MostQueued, 0, 1<<31)
	}
	if d := r.Device; d != nil {
		device := p.field("device")
		device.atMost("values", d.Values, w.most())
		device.atMost("verified", d.Verified, w.most())
		device.atMost("wrong", d.Wrong, w.most())
	}
	w.timings(p, "phases", r.Phases, append([]string{record.PhaseLoop, record.PhaseTurnaround}, record.PhaseNames...))
	within(p, "phase_every", r.PhaseEvery, 0, mostSampling)
	within(p, "phase_cost_ns", r.PhaseNS, 0, float64(w.most()))
	p.atMost("busy_ns", r.BusyNS, exact)
	w.thread(p, &r.Thread)
	counters(p, r.Transport, r.Series)
	w.trace(p, r.Trace)
}

func (w *window) thread(p part, r *record.ThreadReport) {
	t := p.field("thread")
	spent := w.most() + uint64(tick)
	t.atMost("start_ns", r.StartNS, math.MaxInt64)
	t.atMost("monotonic_ns", r.MonotonicNS, w.most())
	t.atMost("clock_ns", r.ClockNS, w.most())
	within(t, "sharing", r.Sharing, 0, w.clients)
	t.atMost("cpu_ns", r.CPUNS, spent)
	t.atMost("system_ns", r.SystemNS, spent)
	t.atMost("voluntary_switches", r.Voluntary, w.most())
	t.atMost("involuntary_switches", r.Involuntary, w.most())
	t.atMost("minor_faults", r.MinorFaults, w.most())
	t.atMost("major_faults", r.MajorFaults, w.most())
	t.atMost("migrations", r.Migrations, w.most())
	t.atMost("gap_count", r.GapCount, w.most())
	t.atMost("gap_ns", r.GapNS, w.most())
	t.atMost("gap_limit_ns", r.GapLimitNS, exact)
	w.gaps(t, "gaps", r.Gaps)
	t.atMostLong("counters", len(r.Counters), mostEntries)
	for _, name := range slices.Sorted(maps.Keys(r.Counters)) {
		t.atMost("counters["+quoted(name)+"]", r.Counters[name], exact)
	}
}

// gaps checks a list of gaps. The clock of their starts counts from the boot of the machine.
func (w *window) gaps(p part, name string, list []record.Gap) {
	p.atMostLong(name, len(list), mostGaps)
	if p.first != nil {
		return
	}
	for i := range list {
		g, gap := p.index(name, i), &list[i]
		g.atMost("at_ns", gap.AtNS, math.MaxInt64)
		g.atMost("for_ns", gap.ForNS, w.most())
		g.atMost("voluntary_switches", gap.Voluntary, exact)
		g.atMost("involuntary_switches", gap.Involuntary, exact)
		g.atMost("minor_faults", gap.MinorFaults, exact)
		g.atMost("major_faults", gap.MajorFaults, exact)
		g.atMost("collections", gap.Collections, exact)
	}
}

func (w *window) process(p part, r *record.ProcessReport) {
	p.oneOf("clock", r.Clock, []string{"tsc", "cntvct", "monotonic"})
	p.atMost("collections", r.Collections, w.most())
	spent := min(mostProcessors*(w.most()+uint64(tick)), exact)
	p.atMost("cpu_ns", r.CPUNS, spent)
	p.atMost("system_ns", r.SystemNS, spent)
	p.atMost("peak_rss_bytes", r.PeakRSS, exact)
	within(p, "threads", r.Threads, 0, mostProcesses)
	within(p, "busy_threads", r.BusyThreads, 0, mostProcesses)
	within(p, "clock_step_ns", r.ClockStepNS, 0, float64(time.Second))
	within(p, "clock_cost_ns", r.ClockCostNS, 0, float64(time.Second))
}

// timings checks durations by name.
func (w *window) timings(p part, name string, list map[string]record.TimingReport, known []string) {
	for _, key := range slices.Sorted(maps.Keys(list)) {
		if p.oneOf(name, key, known); p.first != nil {
			return
		}
		t := list[key]
		w.timing(p.key(name, key), &t)
	}
}

// timing checks the samples of one duration.
func (w *window) timing(p part, t *record.TimingReport) {
	p.atMost("samples", t.Samples, w.most())
	within(p, "mean_ns", t.MeanNS, 0, float64(w.most()))
	if h := w.histogram(p, "histogram", t.Histogram); h != nil {
		within(p, "histogram's count", h.Count(), t.Samples, t.Samples)
	}
}

// histogram decodes a histogram; it returns nil if that is impossible.
func (w *window) histogram(p part, name, text string) *record.Histogram {
	if p.first != nil {
		return nil
	}
	h, err := record.DecodeHistogram(text)
	if err != nil {
		p.wrong(name, quoted(text), "a histogram: "+err.Error())
		return nil
	}
	// A bucket is 0.1% wide, and so is the error of its upper end.
	p.atMost(name+"'s longest", h.Max(), w.most()+w.most()/500+1)
	return h
}

// counters checks what a transport counted itself.
func counters(p part, stats []transport.Stat, series []transport.Series) {
	p.atMostLong("transport", len(stats), mostEntries)
	p.atMostLong("series", len(series), mostEntries)
	if p.first != nil {
		return
	}
	seen := map[string]bool{}
	for i := range stats {
		s := p.index("transport", i)
		s.text("name", stats[i].Name)
		s.atMost("value", stats[i].Value, exact)
		if seen[stats[i].Name] {
			s.wrong("name", quoted(stats[i].Name), "each once")
		}
		seen[stats[i].Name] = true
	}
	for i := range series {
		s := p.index("series", i)
		s.text("name", series[i].Name)
		s.atMostLong("values", len(series[i].Values), record.Slices)
		for _, v := range series[i].Values {
			within(s, "values", v, 0, exact)
		}
	}
}

// mostSteps bounds the steps of a transfer.
const mostSteps = 16

// trace checks the steps of transfers, of which there are at most as many as the window asked for.
func (w *window) trace(p part, list []transport.Transfer) {
	p.atMostLong("trace", len(list), w.spec.Trace)
	if p.first != nil {
		return
	}
	for i := range list {
		one := p.index("trace", i)
		one.text("lane", list[i].Lane)
		within(one, "size", list[i].Size, 0, math.MaxInt)
		one.atMostLong("steps", len(list[i].Steps), mostSteps)
		last := int64(0)
		for _, s := range list[i].Steps {
			one.text("steps", s.Name)
			within(one, "steps", s.Begin, last, math.MaxInt64)
			last = s.Begin
		}
		within(one, "end_unix_ns", list[i].End, last, math.MaxInt64)
	}
}
