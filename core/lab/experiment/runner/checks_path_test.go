package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// window of a good run: 2 million calls, each with two messages of 16 bytes and a value of 32.
const goodPayload = 128_000_000

// statePath gives all windows of e a path of both ranks, and counters of which the ranks' sides
// carry half of the payload each.
func statePath(e *evidence, p transport.Path, counters func(half uint64) []record.Counter) {
	e.Result.Setup.Ranks = []record.RankSetup{{Paths: []transport.Path{p}},
		{Paths: []transport.Path{p}}}
	for i := range e.Result.Repeats {
		for j := range e.Result.Repeats[i].Ranks {
			e.Result.Repeats[i].Ranks[j].Carried = &record.Carried{Namespace: 7,
				Counters: counters(goodPayload / 2)}
		}
	}
}

var overLoopback = transport.Path{Carrier: transport.MediumTCP, Local: "127.0.0.1",
	Remote: "127.0.0.1", Interface: "lo", Overhead: 8}

func stateTCP(e *evidence) {
	statePath(e, overLoopback, func(half uint64) []record.Counter {
		return []record.Counter{
			{Kind: record.KindTCP, Name: "127.0.0.1 127.0.0.1",
				Bytes: record.Bytes{Sent: half + 16e6}},
			// of the whole namespace
			{Kind: record.KindInterface, Name: "lo", Bytes: record.Bytes{Sent: 5 * half}},
		}
	})
}

// counter is a counter of rank 1 in the third window.
func counter(e *evidence, at int) *record.Counter {
	return &e.Result.Repeats[2].Ranks[1].Carried.Counters[at]
}

// copyBytes gives a daemon the kernel's copies in its window, and this share of the requests.
func copyBytes(d *record.DaemonReport, share float64, bytes uint64) {
	d.Requests = uint64(share * float64(d.Served))
	d.Transport = []transport.Stat{{Name: transport.StatKernelBytes, Value: bytes}}
}

var pathCases = []checkCase{
	{"path", func(e *evidence) { stateTCP(e); counter(e, 0).Sent /= 10 }, 0.313,
		"tcp over lo: in 1 window, the path's TCP connections carried 88.0 MB of 128 MB of " +
			"payload"},
	{"path", func(e *evidence) {
		stateTCP(e)
		counter(e, 0).Name = "10.0.0.1 10.0.0.2"
	}, 0.625, "80.0 MB went over TCP from 10.0.0.1 to 10.0.0.2, which the transport does not " +
		"state, beside 128 MB of payload"},
	{"path", func(e *evidence) { stateTCP(e); counter(e, 0).Sent += 70e6 }, 0.796,
		"more than 128 MB of payload and the stated 8 bytes a message allow"},
	{"path", func(e *evidence) {
		stateTCP(e)
		for _, r := range e.Result.Repeats[4].Ranks {
			r.Carried.Counters[1].Sent = 1e6
			r.Carried.Counters = append(r.Carried.Counters,
				record.Counter{Kind: record.KindInterface, Name: "bond0",
					Bytes: record.Bytes{Sent: 130e6}})
		}
	}, 0.992, "the path's interface carried 1.00 MB of 128 MB of payload; bond0, which is no " +
		"part of it, sent 130 MB"},
	{"path", func(e *evidence) {
		statePath(e, transport.Path{Carrier: transport.MediumMemory},
			func(half uint64) []record.Counter {
				return []record.Counter{{Kind: record.KindTCP, Name: "10.0.0.1 10.0.0.2",
					Bytes: record.Bytes{Sent: half}}}
			})
	}, 1, "memory: in 6 windows, 128 MB went over TCP from 10.0.0.1 to 10.0.0.2"},
	{"path", func(e *evidence) {
		statePath(e, transport.Path{Carrier: transport.MediumUDP, Interface: "eth0"},
			func(half uint64) []record.Counter {
				return []record.Counter{{Kind: record.KindInterface, Name: "lo",
					Bytes: record.Bytes{Sent: 2 * half}}}
			})
	}, 1, "udp over eth0: in 6 windows, the path's interface carried 0 B of 128 MB of payload; " +
		"lo, which is no part of it, sent 128 MB"},
	{"path", func(e *evidence) { // headers of small packets do not fill what went elsewhere
		statePath(e, transport.Path{Carrier: transport.MediumUDP, Interface: "eth0"},
			func(half uint64) []record.Counter {
				const packets = 2_500_000
				return []record.Counter{{Kind: record.KindInterface, Name: "eth0",
					Bytes: record.Bytes{Sent: half + 28*packets, SentPackets: packets}}}
			})
	}, 0.5,
		"udp over eth0: in 6 windows, the path's interface carried 64.0 MB of 128 MB of payload"},
	{"path", func(e *evidence) {
		statePath(e, transport.Path{Carrier: transport.MediumUnix},
			func(uint64) []record.Counter { return nil })
		for i := range e.Result.Repeats {
			copyBytes(&e.Result.Repeats[i].Ranks[0].Daemons[0], 1, 100e6)
		}
	}, 0.609, "by the transport's own count, Unix sockets carried 50.0 MB of 128 MB"},
	{"path", func(e *evidence) {
		statePorts(e, "mlx5_0", "mlx5_1", 1)
		each(e, func(r *result.Repeat) {
			r.Ranks[0].Carried.Counters, r.Ranks[1].Carried.Counters = nil, nil
		})
	}, 1, "verbs over mlx5_0/1, verbs over mlx5_1/1: in 6 windows, the RDMA port carried 0 B of " +
		"128 MB"},
}

// statePorts gives the ranks a port each.
func statePorts(e *evidence, first, second string, share float64) {
	statePath(e, transport.Path{Carrier: transport.MediumVerbs, Device: first, Port: 1},
		func(half uint64) []record.Counter {
			sent := record.Bytes{Sent: uint64(share * float64(half))}
			return []record.Counter{{Kind: record.KindPort, Name: first + "/1", Bytes: sent},
				{Kind: record.KindPort, Name: second + "/1", Bytes: sent}}
		})
	e.Result.Setup.Ranks[1].Paths = []transport.Path{
		{Carrier: transport.MediumVerbs, Device: second, Port: 1}}
}

func TestPathPasses(t *testing.T) {
	packets := func(sent uint64) func(uint64) []record.Counter {
		return func(uint64) []record.Counter {
			return []record.Counter{{Kind: record.KindPort, Name: "rxe0/1",
				Bytes: record.Bytes{SentPackets: sent}}}
		}
	}
	for name, c := range map[string]struct {
		state func(*evidence)
		says  string
	}{
		"tcp": {stateTCP, "tcp over lo: 960 MB were counted there for 768 MB of payload"},
		"two ports": {func(e *evidence) { statePorts(e, "mlx5_0", "mlx5_1", 1) },
			"verbs over mlx5_0/1, verbs over mlx5_1/1: 768 MB were counted"},
		// A driver that counts packets: each carries at most 4 KiB.
		"packets": {func(e *evidence) {
			statePath(e, transport.Path{Carrier: transport.MediumVerbs, Device: "rxe0", Port: 1},
				packets(40_000))
		}, "verbs over rxe0/1: at most 983 MB were counted there"},
		"one port": {func(e *evidence) {
			statePath(e, transport.Path{Carrier: transport.MediumVerbs, Device: "mlx5_0", Port: 1},
				packets(0))
		}, "not judged: verbs over mlx5_0/1: the ranks share an RDMA port, which does not count " +
			"what it sends to itself"},
		"a driver that may not count": {func(e *evidence) {
			statePath(e, transport.Path{Carrier: transport.MediumVerbs, Device: "siw0", Port: 1,
				Facts: map[string]string{
					record.FactUncounted: "its driver has no counters that are known"}}, packets(0))
		}, "not judged: verbs over siw0/1: nothing was counted at the RDMA port: its driver has " +
			"no counters that are known"},
		"unknown port": {func(e *evidence) {
			statePath(e, transport.Path{Carrier: transport.MediumVerbs, Device: "rxe0"},
				packets(40_000))
		}, "verbs over rxe0: "},
		// The window of a starved daemon begins late, and it counts only from then on.
		"unix, a daemon that began late": {func(e *evidence) {
			statePath(e, transport.Path{Carrier: transport.MediumUnix}, packets(0))
			each(e, func(r *result.Repeat) { copyBytes(&r.Ranks[0].Daemons[0], 0.5, 190e6) })
		}, "unix: 570 MB were counted there for 576 MB of payload"},
		"memory": {func(e *evidence) {
			statePath(e, transport.Path{Carrier: transport.MediumMemory}, packets(0))
		}, "not judged: memory: the kernel counts no bytes of memory"},
		"no route": {func(e *evidence) {
			statePath(e, transport.Path{Carrier: transport.MediumUDP}, packets(0))
		}, "not judged: udp: the kernel knows no route"},
		"few bytes": {func(e *evidence) {
			stateTCP(e)
			each(e, func(r *result.Repeat) {
				for i := range r.Ranks[1].Clients {
					r.Ranks[1].Clients[i].Issued = 100
				}
			})
			each(e, func(r *result.Repeat) {
				r.Ranks[0].Carried, r.Ranks[1].Carried = &record.Carried{}, &record.Carried{}
			})
		}, "not judged: tcp over lo: the windows carried too little"},
		"nothing stated": {func(*evidence) {}, "does not state what carries its bytes"},
		"an older result": {func(e *evidence) {
			stateTCP(e)
			each(e, func(r *result.Repeat) { r.Ranks[0].Carried = nil })
		}, "does not state what carries its bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			e := good(t)
			c.state(&e)
			got := findCheck(t, e, "path")
			require.True(t, got.OK, got.Message)
			require.Contains(t, got.Message, c.says)
		})
	}
}

// Of a mesh, only the requests to other ranks take the path.
func TestPathOfProxies(t *testing.T) {
	e := goodProxied(t)
	statePath(&e, overLoopback, func(half uint64) []record.Counter {
		return []record.Counter{
			{Kind: record.KindTCP, Name: "127.0.0.1 127.0.0.1",
				Bytes: record.Bytes{Sent: half / 2}},
			{Kind: record.KindInterface, Name: "lo", Bytes: record.Bytes{Sent: half}},
		}
	})
	got := findCheck(t, e, "path")
	require.True(t, got.OK, got.Message)
	require.Contains(t, got.Message, "384 MB were counted there for 384 MB of payload")
}

// What is over the stated overhead is a warning: no byte went elsewhere.
func TestPathSeverity(t *testing.T) {
	e := good(t)
	stateTCP(&e)
	counter(&e, 0).Sent += 70e6
	require.Equal(t, result.Warning, findCheck(t, e, "path").Severity)
	counter(&e, 0).Sent = 0
	require.Equal(t, result.Error, findCheck(t, e, "path").Severity)
}
