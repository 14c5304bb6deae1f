package record

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/transport"
)

// Control is how a host drives a rank: Prepare, Connect, then any number of Overhead, Probe and
// Run, then Close. core/runtime/rank implements it in the plugin's process, and core/plugin
// carries it between the processes. All arguments and results survive a round trip through JSON.
type Control interface {
	// Prepare opens the transport, starts and pins the polling threads, makes their workers and
	// fills the store.
	Prepare(ctx context.Context, plan Plan) (Prepared, error)
	// Connect connects every worker of this rank to its peers; workers has those of all ranks.
	Connect(ctx context.Context, workers []RankWorkers) error
	// Overhead runs the loop of each polling thread for about d, on that thread and all at the same
	// time, against a transport that does nothing: it answers a client's calls at once, and brings
	// a daemon new requests as soon as it has replied. The first call also makes what it needs.
	Overhead(ctx context.Context, d time.Duration) (Overhead, error)
	// Probe takes one measurement between a thread of this rank and one of another. The host calls
	// it on both sides at the same time.
	Probe(ctx context.Context, probe Probe) (transport.Floor, error)
	// Run applies load for one window. Daemons serve from the start. Clients wait for
	// StateMeasuring, call until the window's duration is over, and then drain. Daemons count
	// for the same duration and serve until StateStopped or until ctx ends; a rank without
	// daemons returns once its clients have drained. Run calls started once, when all polling
	// threads are in their loops, and progress from time to time; neither may block. If a
	// thread fails, Run returns its error together with what all threads recorded until then.
	Run(ctx context.Context, window Window, started func(), progress func(Progress)) (Report, error)
	// Advance moves the running window to a later state; an earlier state has no effect. It may
	// be called while Run is in progress.
	Advance(ctx context.Context, to State) error
	// Close closes the workers and the transport. It does not end the process.
	Close(ctx context.Context) error
}

// Plan is everything that a rank needs to prepare.
type Plan struct {
	Rank   int           `json:"rank"`
	Config config.Config `json:"config"`
	// CPUs has the processor of each polling thread, daemons before clients; -1 does not pin the
	// thread.
	CPUs []int `json:"cpus"`
	// Crosses reports that ranks are on several machines.
	Crosses bool `json:"crosses,omitempty"`
	// Kinds has the kind of the calls to each serving rank, by which the clients then count them in
	// [ClientReport.Kinds]. It is empty unless calls within a machine and between machines mix.
	Kinds []CallKind `json:"kinds,omitempty"`
	// Idle is the idle strategy that Config.Idle resolves to on this machine: spin, yield or park.
	Idle string `json:"idle"`
	// Replay is the path of the prepared part of a trace, if Config replays one.
	Replay string `json:"replay,omitempty"`
}

// CallKind tells calls apart by the machines of caller and server.
type CallKind int

// The kinds of calls: to the caller's own rank, to another one on its machine, and to another
// machine.
const (
	CallOwn CallKind = iota
	CallWithin
	CallBetween
	CallKinds // their number
)

// Prepared describes a rank that is ready to connect.
type Prepared struct {
	Workers    RankWorkers          `json:"workers"`
	Properties transport.Properties `json:"properties"`
	PID        int                  `json:"pid" bound:">=1,<=4194304"`
	// CPUs is the affinity of each polling thread as the kernel reports it, in the kernel's
	// list format ("0", "0-3").
	CPUs []string `json:"cpus" bound:"=$threads"`
}

// RankWorkers are the addresses of one rank's workers.
type RankWorkers struct {
	Rank    int      `json:"rank" bound:"=$rank"`
	Daemons [][]byte `json:"daemons" bound:"=$daemons,each>=1,each<=65536"`
	Clients [][]byte `json:"clients" bound:"=$callers,each>=1,each<=65536"`
	// Shared is how other ranks on the host find the memory that the rank shares with its callers,
	// for probes and traces. It is empty if the rank shares none.
	Shared []byte `json:"shared,omitempty" bound:"<=65536"`
}

// Thread names one polling thread of a run.
type Thread struct {
	Rank int `json:"rank"`
	// Daemon or Client is its index within the rank; the other is -1.
	Daemon int `json:"daemon"`
	Client int `json:"client"`
}

// IsDaemon reports whether t is the thread of a daemon.
func (t Thread) IsDaemon() bool { return t.Client < 0 }

// InRank returns what t is in its rank, such as "daemon 0".
func (t Thread) InRank() string {
	if t.IsDaemon() {
		return fmt.Sprint("daemon ", t.Daemon)
	}
	return fmt.Sprint("client ", t.Client)
}

func (t Thread) String() string { return fmt.Sprintf("%s of rank %d", t.InRank(), t.Rank) }

// Name returns what the kernel calls the thread, for tools such as top and perf: "r1 client 0", or
// "r1023 c1023" if that is too long.
func (t Thread) Name() string {
	name := fmt.Sprintf("r%d %s", t.Rank, t.InRank())
	const longest = 15 // the kernel cuts longer ones
	if len(name) > longest {
		name = strings.NewReplacer("client ", "c", "daemon ", "d").Replace(name)
	}
	return name
}

var threadName = regexp.MustCompile(`^r(\d+) (d|c)(?:aemon |lient )?(\d+)$`)

// ParseThreadName returns the thread with a name that [Thread.Name] returned.
func ParseThreadName(name string) (t Thread, ok bool) {
	found := threadName.FindStringSubmatch(name)
	if found == nil {
		return t, false
	}
	rank, errRank := strconv.Atoi(found[1])
	index, errIndex := strconv.Atoi(found[3])
	t = Thread{Rank: rank, Daemon: -1, Client: index}
	if found[2] == "d" {
		t = Thread{Rank: rank, Daemon: index, Client: -1}
	}
	return t, errRank == nil && errIndex == nil
}

// ThreadTrace is what the worker of a polling thread recorded of its transfers.
type ThreadTrace struct {
	Thread
	Transfers []transport.Transfer
}

// Probe describes one side of a measurement between two threads: one that calls over the transport,
// which initiates, and the daemon that it calls.
type Probe struct {
	Near Thread `json:"near"` // of this rank
	Far  Thread `json:"far"`
	transport.Probe
}

// ProbeDistance is the kind of a probe of the core distance: the threads pass a cache line back and
// forth, whatever the transport. The runtime answers it itself, and returns
// transport.ErrUnsupported if the ranks do not share memory.
const ProbeDistance transport.ProbeKind = "bounce"

// ProbeTransport and ProbeTransportRate are the kinds of probes in which the threads call each
// other over the transport without the harness: one call at a time, or several in flight. The
// runtime makes the calls itself. The called side answers until the state is
// [StateStopped].
const (
	ProbeTransport     transport.ProbeKind = "transport"
	ProbeTransportRate transport.ProbeKind = "transport-rate"
)

// CallsAlone reports whether a probe is one of the transport without the harness.
func CallsAlone(kind transport.ProbeKind) bool {
	return kind == ProbeTransport || kind == ProbeTransportRate
}

// MeasuresRate reports whether a probe returns a time per operation, and not a round trip.
func MeasuresRate(kind transport.ProbeKind) bool {
	return kind == transport.ProbeRate || kind == ProbeTransportRate
}

// Window is one stretch of load: the warm-up, or the measured window of a repeat.
type Window struct {
	// Warmup marks the warm-up, which is not measured and chooses the latency sampling of the
	// measured windows.
	Warmup   bool          `json:"warmup"`
	Duration time.Duration `json:"duration"`
	// SampleEvery is the latency sampling of a measured window: one op in SampleEvery is timed.
	// The warm-up's Report has the value to use.
	SampleEvery int `json:"sample_every"`
	// Only is the number of the only class of traffic whose clients call, from 1; 0 is all.
	Only int `json:"only,omitempty"`
	// Pair is the only pair of ranks between which calls are made, for a matrix of traffic; nil is
	// all.
	Pair *Pair `json:"pair,omitempty"`
	// Trace asks for the steps of so many transfers of each worker that can record them
	// ([transport.Recorder]).
	Trace int `json:"trace,omitempty"`
}

// Pair is a calling rank and a rank that it calls.
type Pair struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Progress is what a rank's clients have done since the window began, and their recent latency.
type Progress struct {
	Ops       uint64        `json:"ops" bound:">=$ops,<=$clients*$took"`
	Elapsed   time.Duration `json:"elapsed" bound:">=$elapsed,<=$took"`
	RecentP50 float64       `json:"recent_p50_ns" bound:"<=4294967295"`
	RecentP99 float64       `json:"recent_p99_ns" bound:"<=4294967295"`
	// Drained marks the last progress: all clients of the rank have drained.
	Drained bool `json:"drained,omitempty"`
}

// State is the progress of a window. The host advances it, and every loop reads it, so that loops
// end even if they spin on every core. Clients wait in StateReady until the loops of all ranks
// run, so no window includes the wait for another rank. A start at a fixed time would need
// synchronized clocks.
type State uint32

// The states, in order.
const (
	StateReady     State = iota + 1 // daemons serve but do not count; clients wait
	StateMeasuring                  // clients issue calls; all count
	// clients wait for calls in flight; daemons serve but do not count
	StateDraining
	StateStopped // all loops end
)
