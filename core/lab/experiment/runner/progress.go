package runner

import (
	"sync"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// The steps of a run, in [Status] and in a result's setup.
const (
	StepLaunch   = "launch"
	StepPrepare  = "prepare"
	StepConnect  = result.StepConnect
	StepOverhead = "overhead"
	StepWarmup   = "warmup"
	StepFloor    = "floor"
	StepRepeat   = "repeat"
	StepAlone    = "alone" // of each class of traffic or pair of ranks, beside a repeat
	StepWitness  = "witness"
	StepClose    = "close"
)

// Status is the progress of a run.
type Status struct {
	Step    string
	Repeat  int // from 1; 0 outside of repeats
	Repeats int
	// OpsPerSec is the sum over the calling ranks, since the step began. P50 and P99, in
	// nanoseconds, are the recent latency of the slowest rank.
	OpsPerSec float64
	P50, P99  float64
	// Left is the planned time that remains. Steps without a planned time, such as launching, do
	// not count.
	Left time.Duration
}

// Observer receives the progress of a run.
type Observer interface {
	// Progress must not block. It is called from any goroutine, but never from two at once.
	Progress(Status)
}

// progress tells the observer of a run.
type progress struct {
	obs Observer // may be nil

	mu     sync.Mutex
	status Status
	ends   time.Time               // planned end of the step
	after  time.Duration           // planned time after the step
	latest map[int]record.Progress // by rank
}

func newProgress(cfg config.Config, b Beside, obs Observer) *progress {
	return &progress{
		obs: obs, latest: map[int]record.Progress{},
		status: Status{Repeats: cfg.Repeats},
		after: time.Duration(len(cfg.RepeatsByLaunch()))*time.Duration(cfg.Warmup) +
			time.Duration(cfg.Repeats)*windowTime(cfg, b),
	}
}

// What is measured beside a window takes its full time with windows of fullBeside and longer, and
// with the shortest minBeside of that.
const (
	fullBeside = 20 * time.Millisecond
	minBeside  = 0.25
)

// beside returns how long a measurement beside a window takes that takes d beside a long one.
func beside(cfg config.Config, d time.Duration) time.Duration {
	share := float64(cfg.Duration) / float64(fullBeside)
	return time.Duration(float64(d) * min(max(share, minBeside), 1))
}

// extend adds to the planned time.
func (p *progress) extend(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after += by
}

// enter begins a step that takes the planned time; repeat counts from 1.
func (p *progress) enter(step string, repeat int, planned time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Step, p.status.Repeat = step, repeat
	p.ends = time.Now().Add(planned)
	p.after -= planned
	clear(p.latest)
	p.tell()
}

// end reports that no planned time is left; the run may have ended early.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after, p.ends = 0, time.Now()
	p.tell()
}

// update takes a rank's progress. It may come late, from a rank that is no longer waited for.
func (p *progress) update(r int, latest record.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest[r] = latest
	p.tell()
}

func (p *progress) tell() {
	if p.obs == nil {
		return
	}
	s := p.status
	s.Left = p.after + max(time.Until(p.ends), 0)
	for _, l := range p.latest {
		if l.Elapsed > 0 {
			s.OpsPerSec += float64(l.Ops) / l.Elapsed.Seconds()
		}
		s.P50, s.P99 = max(s.P50, l.RecentP50), max(s.P99, l.RecentP99)
	}
	p.obs.Progress(s)
}
