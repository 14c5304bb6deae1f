package runner

import (
	"sync"
	"testing"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// clientReport is a client without faults that completed one op per microsecond.
func clientReport(d time.Duration) record.ClientReport {
	n := uint64(d / time.Microsecond)
	histogram := timingOf(100, 1000).Histogram
	slices := make([]uint64, 20)
	for i := range slices {
		slices[i] = n / 20
	}
	stages := map[string]record.TimingReport{}
	for _, name := range record.DirectStages {
		stages[name] = *timingOf(10, 166)
	}
	return record.ClientReport{
		InFlightNS: 1000 * n, Stages: stages, StageNS: 30,
		ElapsedNS: uint64(d), Reads: n / 2, Writes: n - n/2, PayloadBytes: 32 * n, Issued: n,
		VerifiedKeys: n, VerifiedSums: n / 2,
		Latency: histogram, ReadLatency: histogram, Samples: 100, MeanNS: 1000, Slices: slices,
		Thread: record.ThreadReport{CPUNS: uint64(d), MonotonicNS: uint64(d)},
	}
}

// meshed adds the fields of a mesh's client; half of its requests are remote.
func meshed(r record.ClientReport, cfg *config.Config) record.ClientReport {
	if !cfg.Mesh() {
		return r
	}
	r.Local, r.Remote = timingOf(50, 600), timingOf(50, 1400)
	for rank := range cfg.Traffic.Matrix() {
		r.Peers = append(r.Peers, record.PeerReport{Rank: rank, Latency: *timingOf(10, 600)})
	}
	if cfg.Proxied() {
		r.Stages = map[string]record.TimingReport{}
		for _, name := range record.StageNames {
			r.Stages[name] = *timingOf(10, 350)
		}
	}
	return r
}

// timingOf has n samples of one value.
func timingOf(samples, ns uint64) *record.TimingReport {
	key := [2]uint64{samples, ns}
	text, known := encodedTimings.Load(key)
	if !known {
		h := record.NewHistogram()
		for range samples {
			h.Record(ns)
		}
		text, _ = encodedTimings.LoadOrStore(key, h.Encode())
	}
	return &record.TimingReport{Histogram: text.(string), MeanNS: float64(ns), Samples: samples}
}

// encodedTimings caches encoded histograms, because encoding is slow.
var encodedTimings sync.Map

// daemonReport is a daemon that served requests, one per loop.
func daemonReport(d time.Duration, requests uint64, cfg *config.Config) record.DaemonReport {
	r := record.DaemonReport{
		ElapsedNS: uint64(d), Loops: 2 * requests, EmptyLoops: requests, Requests: requests,
		Served: requests, Flushes: requests,
		PhaseEvery: 64, PhaseNS: 100, Thread: record.ThreadReport{CPUNS: uint64(d),
			MonotonicNS: uint64(d)},
		Phases: map[string]record.TimingReport{record.PhaseLoop: *timingOf(10, 400)},
	}
	for _, name := range record.PhaseNames {
		r.Phases[name] = *timingOf(10, 100)
	}
	if cfg.Proxied() {
		half := requests / 2
		r.Proxy = &record.ProxyReport{
			FromClients: requests, Local: requests - half, Remote: half, Responses: half,
			Incoming: half,
		}
	}
	return r
}

// request requests three repeats of one launch on a machine with four processors.
func request(c *cluster) Request {
	cfg := config.Default()
	cfg.Repeats, cfg.Launches, cfg.Ranks = 3, 1, 3
	cfg.Warmup = config.Duration(300 * time.Millisecond)
	return Request{Config: cfg, Launcher: c, CPUs: processors(4)}
}

// processors returns n cores of one node.
func processors(n int) []machine.CPU {
	cpus := make([]machine.CPU, n)
	for i := range cpus {
		cpus[i] = machine.CPU{ID: i, Core: i}
	}
	return cpus
}

// meshRequest requests two repeats of three ranks that all serve and call.
func meshRequest(c *cluster, topology string) Request {
	req := request(c)
	req.Config.Topology, req.Config.Repeats, req.Config.RemoteShare = topology, 2, 0.5
	req.CPUs = processors(6)
	return req
}

// histogram encodes the values.
func histogram(t *testing.T, values ...uint64) string {
	t.Helper()
	h := record.NewHistogram()
	for _, v := range values {
		h.Record(v)
	}
	text := h.Encode()
	return text
}

// readings has a distance, the floors of the medium and its rate, and a round trip of the library.
func readings(distance, medium, rate, library float64) result.Readings {
	return result.Readings{
		CoreDistance: distance, Medium: &transport.Floor{RoundTrip: medium},
		Rate: &transport.Floor{PerOp: rate}, Library: &transport.Floor{RoundTrip: library},
	}
}
