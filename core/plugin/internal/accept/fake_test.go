package accept_test

import (
	"context"
	"encoding/json"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/plugin/internal/accept"
	"transportbench/core/plugin/internal/wire"
	"transportbench/core/transport"
)

// fakePlugin answers each call, by its name, with messages of its own choice: any bytes.
type fakePlugin map[string][]string

// rawCodec passes messages as they are.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "raw" }
func (rawCodec) Marshal(m any) ([]byte, error) { return []byte(*m.(*string)), nil }
func (rawCodec) Unmarshal(data []byte, m any) error {
	*m.(*string) = string(data)
	return nil
}

// connect returns the host's end of a connection to the plugin, which the host checks.
func (f fakePlugin) connect(t testing.TB) *accept.Rank {
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			var request string
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
			method, _ := grpc.MethodFromServerStream(stream)
			for _, message := range f[method[strings.LastIndex(method, "/")+1:]] {
				if err := stream.SendMsg(&message); err != nil {
					return err
				}
			}
			return nil
		}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///fake",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		server.Stop()
		require.NoError(t, <-served)
	})
	return accept.New(wire.NewClient(conn, nil))
}

// elapsed is the window that an honest rank reports, in nanoseconds. It is short, so that a host
// takes longer, and counts are as small.
const elapsed = 1000

// plan is that of rank 1, which has a client of each kind of answer.
func plan(edit func(*config.Config)) record.Plan {
	cfg := config.Default()
	cfg.ValueSize = config.FixedSize(32)
	if edit != nil {
		edit(&cfg)
	}
	daemons, clients := cfg.Threads(1)
	return record.Plan{Rank: 1, Config: cfg, CPUs: make([]int, daemons+clients),
		Idle: config.IdleYield}
}

func proxied(cfg *config.Config)  { cfg.Topology = config.TopologyMeshProxied }
func openLoop(cfg *config.Config) { cfg.Rate = 1000 }

// classes has three clients of two classes, which share a thread.
func classes(cfg *config.Config) {
	cfg.Classes = config.Classes{
		{Name: "one", Size: 32, InFlight: 8, Clients: 1},
		{Name: "two", Size: 32, InFlight: 8, Clients: 2}}
	cfg.Clients, cfg.InFlight = 3, 8
}

func mixed(cfg *config.Config) { cfg.Mix = config.Mix{{Op: config.OpRead, Share: 1}} }

func timing(samples int) record.TimingReport {
	h := record.NewHistogram()
	for range samples {
		h.Record(100)
	}
	return record.TimingReport{Histogram: h.Encode(), MeanNS: 100, Samples: uint64(samples)}
}

func timings(names []string) map[string]record.TimingReport {
	list := map[string]record.TimingReport{}
	for _, name := range names {
		list[name] = timing(1)
	}
	return list
}

// uptime is how long the machine has been up, in nanoseconds: a year, which is above 2^53.
const uptime = uint64(365 * 24 * time.Hour)

// honest answers as a rank without faults.
type honest struct {
	Plan     record.Plan
	Prepared record.Prepared
	Overhead record.Overhead
	Floor    transport.Floor
	Progress []record.Progress
	Report   record.Report
}

func honestRank(plan record.Plan) *honest {
	cfg := &plan.Config
	daemons, clients := cfg.Threads(plan.Rank)
	h := &honest{
		Plan: plan,
		Prepared: record.Prepared{
			Workers: record.RankWorkers{Rank: plan.Rank}, PID: 42,
			Properties: transport.Properties{Provider: "memfd",
				Limits: transport.Limits{MaxPayload: 1 << 20}},
		},
		Overhead: record.Overhead{PerOpNS: 20, ClientNS: 12, DaemonNS: 8, StampNS: 30},
		Floor:    transport.Floor{Name: "ping-pong", RoundTrip: 120, Samples: 10},
		Progress: []record.Progress{{Ops: 1, Elapsed: 1},
			{Ops: 2, Elapsed: 2, RecentP50: 10, RecentP99: 20},
			{Ops: 2, Elapsed: 3, Drained: true}},
		Report: record.Report{Rank: plan.Rank, SampleEvery: 8,
			Process: record.ProcessReport{Clock: "tsc", Threads: 9}},
	}
	h.Report.Setup = &record.RankSetup{
		OpenNS: 10, WorkersNS: 20, RegisteredBytes: 4096, RegisterNS: 5,
		Connections: 2, ConnectNS: 30, ConnectMaxNS: 20, ConnectAllNS: 31, FirstCalls: 2,
		FirstCallNS: 7, FirstCallMaxNS: 8,
		Paths: []transport.Path{{Carrier: "tcp", Local: "127.0.0.1", Remote: "127.0.0.1",
			Interface: "lo", Overhead: 8, Facts: map[string]string{"mtu": "65536"}}},
	}
	h.Report.Carried = &record.Carried{Namespace: 7, Counters: []record.Counter{
		{Kind: record.KindInterface, Name: "lo", Bytes: record.Bytes{Sent: 10, SentPackets: 1}},
	}}
	if clients == 0 {
		h.Progress = nil
	}
	thread := record.ThreadReport{
		StartNS: uptime, MonotonicNS: elapsed, ClockNS: elapsed, CPUNS: elapsed,
		Gaps: []record.Gap{{AtNS: uptime + 1, ForNS: 7}}, GapCount: 1, GapNS: 7, GapLimitNS: 6,
		Counters: map[string]uint64{"cycles": 3000},
	}
	stats := []transport.Stat{{Name: "copies", Value: 20}}
	series := []transport.Series{{Name: "window", Values: make([]float64, record.Slices)}}
	for range daemons {
		h.Prepared.Workers.Daemons = append(h.Prepared.Workers.Daemons, []byte{1})
		d := record.DaemonReport{
			ElapsedNS: elapsed, Loops: 30, EmptyLoops: 10, Requests: 20, Gets: 10, Puts: 10,
			Served: 22, StoredBytes: 320, Flushes: 20,
			Phases: timings(append([]string{record.PhaseLoop, record.PhaseTurnaround},
				record.PhaseNames...)), PhaseEvery: 64,
			Thread: thread, Transport: stats, Series: series,
		}
		if cfg.Proxied() {
			d.Proxy = &record.ProxyReport{FromClients: 20, Local: 10, Remote: 10, Responses: 10,
				Incoming: 10}
		}
		h.Report.Daemons = append(h.Report.Daemons, d)
	}
	for range clients {
		names := record.DirectStages
		if cfg.Proxied() {
			names = record.StageNames
		} else {
			h.Prepared.Workers.Clients = append(h.Prepared.Workers.Clients, []byte{2})
		}
		half, all := timing(5), timing(10)
		c := record.ClientReport{
			ElapsedNS: elapsed, Reads: 10, Writes: 10, PayloadBytes: 640, Drained: 1, Issued: 21,
			VerifiedKeys: 20, VerifiedSums: 10,
			Polls: 40, EmptyPolls: 20, Latency: all.Histogram, ReadLatency: half.Histogram,
			WriteLatency: half.Histogram,
			Samples:      10, MeanNS: 100, InFlightNS: elapsed, Stages: timings(names),
			Slices: make([]uint64, record.Slices),
			Thread: thread, Transport: stats, Series: series,
			Trace: []transport.Transfer{
				{Lane: "send 0", Size: 7, Steps: []transport.Step{{Name: "wait", Begin: 5},
					{Name: "send", Begin: 6}}, End: 7}},
		}
		if cfg.Mesh() {
			c.Local, c.Remote = &half, &half
		}
		if cfg.Rate != 0 {
			c.Open = &record.OpenReport{Scheduled: 20, Response: all, Lag: all}
		}
		if len(cfg.Mix) > 0 {
			c.Operations = map[string]record.OperationReport{
				config.OpRead: {Count: 20, Latency: all}}
		}
		h.Report.Clients = append(h.Report.Clients, c)
	}
	for range plan.CPUs {
		h.Prepared.CPUs = append(h.Prepared.CPUs, "0-1")
	}
	return h
}

// text returns the JSON of a message with a field.
func text(field string, value any) string {
	encoded, err := json.Marshal(map[string]any{field: value})
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

// plugin returns a plugin that answers so.
func (h *honest) plugin() fakePlugin {
	run := []string{text("started", true)}
	for _, p := range h.Progress {
		run = append(run, text("progress", p))
	}
	return fakePlugin{
		"Prepare": {text("value", h.Prepared)}, "Overhead": {text("value", h.Overhead)},
		"Probe":   {text("value", h.Floor)},
		"Advance": {"{}"}, "Run": append(run, text("report", h.Report)),
	}
}

// drive takes a rank through all calls that have an answer, and returns the first error.
func drive(r *accept.Rank, plan record.Plan, kind transport.ProbeKind) (report record.Report,
	err error) {
	ctx := context.Background()
	if _, err = r.Prepare(ctx, plan); err != nil {
		return report, err
	}
	if _, err = r.Overhead(ctx, time.Millisecond); err != nil {
		return report, err
	}
	if _,
		err = r.Probe(ctx, record.Probe{Probe: transport.Probe{Kind: kind, Initiate: true}}); err !=
		nil {
		return report, err
	}
	return r.Run(ctx, record.Window{Duration: elapsed, SampleEvery: 8, Trace: 1}, func() {},
		func(record.Progress) {})
}
