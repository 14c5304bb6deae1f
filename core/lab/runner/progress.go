package runner

import (
	"sync"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
)

// The names of phases, in [State] and among the steps of a result's setup.
const (
	PhaseLaunch   = "launch"
	PhasePrepare  = "prepare"
	PhaseConnect  = "connect"
	PhaseOverhead = "overhead"
	PhaseWarmup   = "warmup"
	PhaseFloor    = "floor"
	PhaseRepeat   = "repeat"
	PhaseClose    = "close"
)

// State is how far a run has come.
type State struct {
	Phase   string
	Repeat  int // from 1; 0 outside of repeats
	Repeats int
	// OpsPerSec is summed over the ranks that called so far in this phase. P50
	// and P99, in nanoseconds, are of late and those of the slowest rank.
	OpsPerSec float64
	P50, P99  float64
	// Left is the time to go by plan, which leaves out what has none, such as
	// launching.
	Left time.Duration
}

// Observer is told how a run goes.
type Observer interface {
	// Progress must not block. It may be called from any goroutine, but not
	// from two at once.
	Progress(State)
}

// progress keeps the observer informed.
type progress struct {
	obs Observer

	mu     sync.Mutex
	state  State
	ends   time.Time               // of the phase, by plan
	after  time.Duration           // the plan's time behind the phase
	latest map[int]record.Progress // by rank
}

func newProgress(cfg config.Config, obs Observer) *progress {
	each := time.Duration(cfg.Duration) + 2*probeDuration
	return &progress{
		obs: obs, latest: map[int]record.Progress{},
		state: State{Repeats: cfg.Repeats},
		after: overheadDuration + time.Duration(cfg.Warmup) + time.Duration(cfg.Repeats)*each,
	}
}

// enter begins a phase that lasts so long by plan; repeat counts from 1.
func (p *progress) enter(phase string, repeat int, lasts time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Phase, p.state.Repeat = phase, repeat
	p.ends = time.Now().Add(lasts)
	p.after -= lasts
	if phase == PhaseClose {
		p.after = 0 // also where the run was cut short
	}
	clear(p.latest)
	p.tell()
}

// update takes in what a rank says. It may come late, from a rank that was
// given up on.
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
	s := p.state
	s.Left = p.after + max(time.Until(p.ends), 0)
	for _, l := range p.latest {
		if l.Elapsed > 0 {
			s.OpsPerSec += float64(l.Ops) / l.Elapsed.Seconds()
		}
		s.P50, s.P99 = max(s.P50, l.RecentP50), max(s.P99, l.RecentP99)
	}
	p.obs.Progress(s)
}
