package report

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// load is one configuration of the fixture.
type load struct {
	transport, topology string
	inFlight, size      int
	rate                float64
}

// loads returns closed and open loops of three transports, and a mesh.
func loads() []load {
	var list []load
	for _, name := range []string{"shm", "copyrpc", "ucxam"} {
		for _, size := range []int{32, 4096} {
			for _, inFlight := range []int{1, 4, 16} {
				list = append(list, load{name, "client-server", inFlight, size, 0})
			}
		}
		for _, rate := range []float64{5e4, 1e5, 2e5} {
			list = append(list, load{name, "client-server", 16, 32, rate})
		}
		list = append(list, load{name, "mesh-proxied", 4, 32, 0})
	}
	return list
}

// fake returns a result with consistent figures: those of one server with a fixed time per request.
// The same seed gives the same result.
func fake(t testing.TB, l load, repeats int, slower float64, seed uint64) *result.Result {
	random := rand.New(rand.NewPCG(seed, uint64(l.inFlight)<<32+uint64(l.size)+uint64(l.rate)))
	each := map[string]float64{"shm": 180, "copyrpc": 300,
		"ucxam": 600}[l.transport] * slower * (1 + float64(l.size)/8192)
	if each == 0 {
		each = 400
	}
	r := &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun,
		ID:        fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64()),
		StartedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Argv:      []string{"transportbench", "run"},
		Tool:      result.Tool{Version: "0.3.0", Revision: "r", Go: "go"}, Config: config.Default(),
		Plugin: result.Plugin{Name: l.transport, Version: "0.3.0", SHA256: "s", RuntimeDigest: "d",
			Provider: map[string]string{"shm": "memfd", "copyrpc": "soft",
				"ucxam": "sysv"}[l.transport]},
		Environment: machine.Environment{Identity: machine.Identity{CPU: "Some CPU", Arch: "amd64",
			Cores: 8, Kernel: "6.1"},
			Volatile: machine.Volatile{Governor: "powersave"}},
		Setup: result.Setup{FirstWindowMS: 300,
			Warmup: &result.Warmup{LastedMS: 210, Ended: result.WarmupSteady},
			Ranks: []record.RankSetup{
				{Paths: []transport.Path{
					{Carrier: "tcp", Interface: "eth7",
						Facts: map[string]string{"gro": "<b>on</b>"}}}}}},
		Checks: []result.Finding{
			{Name: "complete", OK: true, Severity: result.Error, Value: float64(repeats),
				Limit: float64(repeats), Message: "all repeats are here"},
			{Name: "drift", Severity: result.Warning, Value: 0.12 + 0.1*random.Float64(),
				Limit: 0.1, Message: "the rate rose within a window"},
			{Name: "mean", OK: true, Severity: result.Warning, Value: 0.01 + 0.02*random.Float64(),
				Limit: 0.03, Message: "the sampled mean fits the exact one"},
		},
	}
	c := &r.Config
	c.Transport, c.Topology, c.InFlight, c.ValueSize, c.Rate, c.Repeats = l.transport, l.topology,
		l.inFlight, config.FixedSize(config.Size(l.size)), config.Rate(l.rate), repeats
	c.Options = map[string]string{"ring": "auto"}
	var times []histograms // two for all repeats: making and packing them takes longest
	for i := range repeats {
		took := each * (0.97 + 0.06*random.Float64())
		if i < 2 {
			times = append(times, fakeTimes(t, l, took, random))
		}
		r.Repeats = append(r.Repeats, fakeRepeat(l, i, took, times[i%2], random))
		r.Launches = append(r.Launches, result.Launch{Placement: []result.Placement{},
			Setup: fakeSetup})
	}
	r.Summary = result.SummarizeRepeats(r.Repeats)
	return r
}

// fakeSetup is what each launch of the fixture takes: 1.5 ms to open, 0.5 ms of which register
// memory.
var fakeSetup = result.Setup{Steps: []result.Step{}, CloseMS: 0.2, Ranks: []record.RankSetup{
	{OpenNS: 1e6, Connections: 1, ConnectNS: 3e5, ConnectMaxNS: 3e5, ConnectAllNS: 3e5,
		RegisteredBytes: 1 << 20, RegisterNS: 9e5},
	{OpenNS: 1e6, WorkersNS: 5e5, Connections: 1, ConnectNS: 1e5, ConnectMaxNS: 1e5,
		ConnectAllNS: 1e5, RegisteredBytes: 1 << 20, RegisterNS: 5e5, FirstCalls: 2,
		FirstCallNS: 2e4, FirstCallMaxNS: 5e4},
}}

// histograms returns the times of a window, decoded and encoded.
type histograms struct {
	service, response     *record.Histogram
	encoded, encodedWaits string
}

const fakeSamples = 4000

func fakeTimes(t testing.TB, l load, each float64, random *rand.Rand) histograms {
	h := histograms{service: record.NewHistogram(), response: record.NewHistogram()}
	mean := each * float64(l.inFlight)
	if l.rate > 0 {
		mean = each / (1 - min(0.95, l.rate*each/1e9))
	}
	for range fakeSamples {
		ns := mean * (0.6 + 0.4*random.ExpFloat64())
		h.service.Record(uint64(ns))
		h.response.Record(uint64(ns * (1 + random.Float64())))
	}
	h.encoded = h.service.Encode()
	if l.rate > 0 {
		h.encodedWaits = h.response.Encode()
	}
	return h
}

// oneTime is a histogram of 100 ns; only the means of phases matter.
var oneTime = sync.OnceValue(func() string {
	h := record.NewHistogram()
	h.Record(100)
	return h.Encode()
})

func fakeRepeat(l load, index int, each float64, h histograms, random *rand.Rand) result.Repeat {
	const window = 1e9
	service, response := h.service, h.response
	rate := 1e9 / each
	if l.rate > 0 {
		rate = l.rate
	}
	rep := result.Repeat{
		Index: index, Launch: index, StartedAt: time.Date(2026, 3, 4, 5, 6, 8+index, 0, time.UTC),
		Latency: h.encoded,
		Before: result.Readings{Medium: &transport.Floor{Name: "bounce", RoundTrip: 120,
			Samples: 100}}, After: result.Readings{Medium: &transport.Floor{Name: "bounce",
			RoundTrip: 122, Samples: 100}},
		Samples: map[string]float64{
			result.Throughput: rate, result.Goodput: rate * float64(l.size),
			result.LatencyP50: service.Quantile(0.5), result.LatencyP90: service.Quantile(0.9),
			result.LatencyP99: service.Quantile(0.99), result.LatencyP999: service.Quantile(0.999),
			result.LatencyMax: float64(service.Max()),
			result.Floor:      121, result.FloorRatio: service.Quantile(0.5) / 121,
			result.OpTimeRatio: 1e9 / rate / 121, result.CPUPerOp: 2e9 / rate,
			result.ClientFairness: 1, result.EmptyLoops: random.Float64(),
		},
	}
	client := record.ClientReport{ElapsedNS: window, Reads: uint64(rate / 2),
		Writes: uint64(rate / 2), Latency: rep.Latency, Samples: fakeSamples,
		MeanNS: service.Mean(),
		Polls:  uint64(rate), Thread: record.ThreadReport{CPUNS: window}}
	for range 20 {
		client.Slices = append(client.Slices, uint64(rate/20*(0.95+0.1*random.Float64())))
	}
	if l.rate > 0 {
		rep.Response, rep.Lag = h.encodedWaits, h.encodedWaits
		rep.Samples[result.OfferedLoad], rep.Samples[result.ScheduleLagP99] = l.rate, 900
		for name, q := range map[string]float64{result.ResponseP50: 0.5, result.ResponseP90: 0.9,
			result.ResponseP99: 0.99, result.ResponseP999: 0.999} {
			rep.Samples[name] = response.Quantile(q)
		}
		timing := record.TimingReport{Histogram: rep.Response, MeanNS: response.Mean(),
			Samples: fakeSamples}
		client.Open = &record.OpenReport{Scheduled: uint64(l.rate), Response: timing, Lag: timing}
	}
	timing := func(ns float64) record.TimingReport {
		return record.TimingReport{Histogram: oneTime(), MeanNS: ns, Samples: 1}
	}
	if l.topology == config.TopologyMeshProxied {
		remote := record.TimingReport{Histogram: rep.Latency, MeanNS: service.Mean(),
			Samples: fakeSamples}
		client.Remote, client.Stages = &remote, map[string]record.TimingReport{}
		for i, name := range record.StageNames {
			client.Stages[name] = timing(service.Mean() * []float64{0.2, 0.1, 0.4, 0.2}[i])
		}
	}
	daemon := record.DaemonReport{ElapsedNS: window, Loops: 1e6, EmptyLoops: 2e5,
		Requests: client.Reads + client.Writes, Flushes: 8e5,
		Thread: record.ThreadReport{CPUNS: window},
		Phases: map[string]record.TimingReport{"poll": timing(120), "serve": timing(60),
			"flush": timing(40), record.PhaseLoop: timing(240),
			record.PhaseTurnaround: timing(150)}}
	rep.Ranks = []record.Report{{Rank: 0, Daemons: []record.DaemonReport{daemon}, SampleEvery: 10},
		{Rank: 1, Clients: []record.ClientReport{client}, SampleEvery: 10}}
	return rep
}

// fakeSet writes results to a directory and loads it as a set.
func fakeSet(t testing.TB, list []load, repeats int, slower float64) *set.Set {
	t.Helper()
	dir := t.TempDir()
	for i, l := range list {
		put(t, filepath.Join(dir, fmt.Sprintf("%04d.json", i)),
			fake(t, l, repeats, slower, uint64(i)+uint64(100*slower)))
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	return s
}

// put writes a result's file without syncing the disk.
func put(t testing.TB, path string, r *result.Result) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, result.Encode(&text, r))
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
}

func committed(t testing.TB) *set.Set {
	t.Helper()
	s, err := set.Load("../../../../" + doctest.Standard)
	require.NoError(t, err)
	return s
}

func build(t testing.TB, sets ...*set.Set) *Page {
	t.Helper()
	p, err := Build(context.Background(), sets, Options{Compare: compare.Defaults()})
	require.NoError(t, err)
	return p
}

func rendered(t testing.TB, p *Page) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.Render(&b))
	return b.Bytes()
}

// unpacked reads the data in the page as its script does.
func unpacked(t testing.TB, page []byte, id string, into any) {
	t.Helper()
	found := regexp.MustCompile(`<script type="text/plain" id="` + id +
		`">([A-Za-z0-9+/=]*)</script>`).FindSubmatch(page)
	require.NotNil(t, found, id)
	packed, err := base64.StdEncoding.DecodeString(string(found[1]))
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	line, text, _ := bytes.Cut(text, []byte("\n"))
	var phrases []string
	require.NoError(t, json.Unmarshal(line, &phrases))
	for i, phrase := range phrases {
		text = bytes.ReplaceAll(text, []byte{byte(1 + i)}, []byte(phrase))
	}
	require.NoError(t, json.Unmarshal(text, into))
}

// detailsIn returns the details of all cells of a page.
func detailsIn(t testing.TB, page []byte, doc *document) []*cellpage.Page {
	t.Helper()
	var all []*cellpage.Page
	for i := range int(math.Ceil(float64(len(doc.Cells.Label)) / float64(doc.ChunkSize))) {
		var list cellpage.Chunk
		unpacked(t, page, fmt.Sprintf("chunk-%d", i), &list)
		for at, p := range list.Cells {
			for _, part := range list.Parts {
				p.Parts = append(p.Parts, part[at])
			}
		}
		all = append(all, list.Cells...)
	}
	require.Len(t, all, len(doc.Cells.Label))
	return all
}
