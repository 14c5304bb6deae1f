package runner

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// limited changes a request so that one limit is exceeded.
type limited struct {
	name   string
	change func(*Request)
	want   string // empty if the run fits
}

var limitedRuns = []limited{
	{"plain", func(*Request) {}, ""},
	{"unknown", func(r *Request) { r.System = machine.Limits{} }, ""},
	{"files, fits", func(r *Request) {
		r.System.OpenFiles, r.Needs = 60,
			transport.Needs{WorkerFiles: 4, PeerFiles: 2}
	}, ""},
	{"files of the command", func(r *Request) { r.System.OpenFiles = 20 },
		"open files: a process of this run needs about 38, but the limit is 20; raise it with " +
			"ulimit -n 1024, or use fewer ranks, daemons or clients"},
	{"files of a daemon", func(r *Request) {
		r.System.OpenFiles, r.Needs, r.Config.Clients = 64,
			transport.Needs{WorkerFiles: 4, PeerFiles: 2}, 32
	}, "needs about 212, but the limit is 64; raise it with ulimit -n 1024"},
	{"files of a proxied mesh, fits", func(r *Request) {
		r.System.OpenFiles, r.Needs, r.Config.Clients = 64,
			transport.Needs{WorkerFiles: 4, PeerFiles: 2}, 32
		r.Config.Topology = config.TopologyMeshProxied
	}, ""},
	{"tasks", func(r *Request) { r.System.Tasks = 30 },
		"processes: the run needs about 63 threads, but this user or its control group may start " +
			"only 30 more; raise ulimit -u or pids.max"},
	{"address space", func(r *Request) { r.System.AddressSpace = 1 << 30 },
		"address space: a process of this run reserves about 1.5 GiB, but the limit is 1.0 GiB; " +
			"raise it with ulimit -v unlimited"},
	{"memory of workers", func(r *Request) {
		r.Needs.WorkerMemory, r.Environment.Volatile.AvailableMemory = 1<<30, 2<<30
	}, "--ranks: the run needs about"},
	{"memory of large values", func(r *Request) {
		r.Config.ValueSize, r.Config.Keys,
			r.Environment.Volatile.AvailableMemory = config.FixedSize(256<<20), 1, 2<<30
	}, "--in-flight: the run needs about"},
	{"declared limit", func(r *Request) { r.Limits.InFlight, r.Config.InFlight = 8, 9 },
		"--in-flight: 9 calls in flight, but transport shm takes 8 on a connection; use " +
			"--in-flight 8 or less"},
	{"declared peers", func(r *Request) { r.Limits.Peers = 1 },
		"--clients: each daemon would have 2 clients"},
}

func TestLimitsAreCheckedFirst(t *testing.T) {
	for _, c := range limitedRuns {
		t.Run(c.name, func(t *testing.T) {
			req := request(newCluster())
			req.System = machine.Limits{OpenFiles: machine.Unlimited,
				AddressSpace: machine.Unlimited, Tasks: machine.Unlimited}
			c.change(&req)
			err := errors.Join(checkLimits(req.Config, req.Limits), checkResources(req))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			cluster := newCluster()
			req.Launcher = cluster
			_, err = Run(t.Context(), req, nil)
			require.ErrorContains(t, err, c.want)
			require.Empty(t, cluster.calls(-1))
		})
	}
}

func TestCheckStart(t *testing.T) {
	require.NoError(t, CheckStart(machine.Limits{OpenFiles: 1024, AddressSpace: machine.Unlimited,
		Tasks: machine.Unlimited}))
	var limit *LimitError
	require.ErrorAs(t, CheckStart(machine.Limits{OpenFiles: 20}), &limit)
}

func TestFailuresNameTheLimit(t *testing.T) {
	died := &RankError{Rank: 1, Op: "run",
		Err: &record.ExitError{Plugin: "shm", State: "signal: killed"}}
	full := errors.New("epoll_create: too many open files")
	limits := machine.Limits{OpenFiles: 64, AddressSpace: machine.Unlimited}
	for _, c := range []struct {
		err    error
		limits machine.Limits
		kills  uint64
		want   string
	}{
		{nil, limits, 1, ""},
		{errors.New("other"), limits, 1, ""},
		{died, limits, 0, ""},
		{died, limits, 1, "died: signal: killed; the kernel killed a process for lack of memory"},
		{full, limits, 0,
			"too many open files; the limit of open files is 64: raise it with ulimit -n"},
		{died, machine.Limits{AddressSpace: 2 << 30}, 0, "the limit of address space is 2.0 GiB"},
	} {
		err := explainLimit(c.err, c.limits, c.kills)
		require.ErrorIs(t, err, c.err)
		if c.want == "" {
			require.Equal(t, c.err, err)
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
}
