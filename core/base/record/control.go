package record

import (
	"context"
	"fmt"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/transport"
)

// Control is what a host asks of a rank, in this order: Prepare, Connect, then
// any number of Overhead, Probe and Run, then Close. [Rank] implements it in
// the plugin's process, and core/plugin carries it over gRPC; all arguments
// and results survive a trip through JSON.
type Control interface {
	// Prepare opens the transport, makes the workers on their own pinned
	// threads and fills the store.
	Prepare(ctx context.Context, plan Plan) (Prepared, error)
	// Connect connects every worker of this rank to its peers.
	Connect(ctx context.Context, workers []RankWorkers) error
	// Overhead runs the client's loop against a transport that completes at
	// once, and returns what the harness costs in nanoseconds an op.
	Overhead(ctx context.Context, d time.Duration) (Overhead, error)
	// Probe measures the floor between one worker here and one elsewhere;
	// the host asks both sides at the same time.
	Probe(ctx context.Context, probe Probe) (transport.Floor, error)
	// Run goes through one phase. Daemons serve from the start; clients wait
	// until Advance says measuring, call until the phase's duration is over,
	// and then drain. Daemons count for the same duration and go on serving
	// until Advance says stopped or ctx ends; without daemons, Run returns when
	// the clients have drained. started is called once, when the pollers are
	// in their loops, and progress from time to time; neither may block.
	// Where a thread fails, Run returns its error beside what all threads
	// recorded until then.
	Run(ctx context.Context, phase Phase, started func(), progress func(Progress)) (Report, error)
	// Advance moves the running phase on to a later stage; it never goes back.
	Advance(ctx context.Context, to Stage) error
	// Close closes workers and transport. It does not end the process.
	Close(ctx context.Context) error
}

// Plan is all that one rank must know to prepare.
type Plan struct {
	Rank   int           `json:"rank"`
	Config config.Config `json:"config"`
	// CPUs has the processor of each polling thread, daemons before clients;
	// -1 leaves a thread where the scheduler puts it.
	CPUs []int `json:"cpus"`
	// Idle is the strategy that Config.Idle comes to on this machine: spin,
	// yield or park.
	Idle string `json:"idle"`
}

// Prepared is a rank that is ready to connect.
type Prepared struct {
	Workers    RankWorkers          `json:"workers"`
	Properties transport.Properties `json:"properties"`
	PID        int                  `json:"pid"`
	// CPUs is the affinity read back from each polling thread, as a list in
	// the kernel's notation ("0", "0-3").
	CPUs []string `json:"cpus"`
	// Waits says whether every worker can park.
	Waits bool `json:"waits"`
}

// RankWorkers are the addresses of one rank's workers.
type RankWorkers struct {
	Rank    int      `json:"rank"`
	Daemons [][]byte `json:"daemons"`
	Clients [][]byte `json:"clients"`
}

// Thread names one polling thread of a run.
type Thread struct {
	Rank int `json:"rank"`
	// Daemon or Client is its index within the rank; the other is -1.
	Daemon int `json:"daemon"`
	Client int `json:"client"`
}

// IsDaemon reports whether t is a daemon's thread.
func (t Thread) IsDaemon() bool { return t.Client < 0 }

func (t Thread) String() string {
	if t.IsDaemon() {
		return fmt.Sprintf("daemon %d of rank %d", t.Daemon, t.Rank)
	}
	return fmt.Sprintf("client %d of rank %d", t.Client, t.Rank)
}

// Probe names one side of a floor measurement.
type Probe struct {
	Near     Thread        `json:"near"` // of this rank
	Far      Thread        `json:"far"`
	Initiate bool          `json:"initiate"`
	Duration time.Duration `json:"duration"`
}

// Phase is one stretch of load.
type Phase struct {
	// Warmup phases choose the latency sampling and are not measured.
	Warmup   bool          `json:"warmup"`
	Duration time.Duration `json:"duration"`
	// SampleEvery is the latency sampling of a measured phase, as the warm-up
	// chose it.
	SampleEvery int `json:"sample_every"`
}

// Progress is what a rank's clients have done since the phase began, and their
// latency of late.
type Progress struct {
	Ops       uint64        `json:"ops"`
	Elapsed   time.Duration `json:"elapsed"`
	RecentP50 float64       `json:"recent_p50_ns"`
	RecentP99 float64       `json:"recent_p99_ns"`
	// Drained says that the clients have ended their phase; it comes last.
	Drained bool `json:"drained,omitempty"`
}

// Stage is how far a phase has come. The control side moves it on and every
// loop looks at it, so that a loop which spins on every core still ends.
type Stage uint32

// The stages, in order.
const (
	StageReady     Stage = iota + 1 // daemons serve uncounted; clients wait
	StageMeasuring                  // calls are issued and counted
	StageDraining                   // clients wait for what is in flight; daemons serve uncounted
	StageStopped                    // all loops end
)
