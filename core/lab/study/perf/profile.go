package perf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// perf takes a moment to attach to the ranks, and lets go of them before the window ends.
const (
	// MinWindow is the shortest window of a profile.
	MinWindow = config.Duration(500 * time.Millisecond)
	// Windows is the number of windows of a profile: one without perf and one under perf c2c.
	Windows = 2

	watchedShare = 0.8 // of a window
)

// Profile is what perf saw of a run.
type Profile struct {
	Kind      string `json:"kind"`
	Transport string `json:"transport"`
	// Micro is the reading of a microbenchmark; "" for a run, which has a Config.
	Micro      string        `json:"micro,omitempty"`
	Config     config.Config `json:"config"`
	Throughput Throughput    `json:"throughput"`
	// Threads has those of the window without perf. NoThreads is the reason if there are none.
	Threads   []ThreadEvents `json:"threads"`
	NoThreads string         `json:"no_threads,omitempty"`
	// Sharing is that of perf c2c. NoSharing is the reason if it is nil.
	Sharing   *Sharing `json:"sharing"`
	NoSharing string   `json:"no_sharing,omitempty"`
	// Readings has the figures of Sharing as a cell, which diff, report and reproduce read.
	Readings *set.Set `json:"readings"`
}

// Throughput has the operations per second of the window without perf and of that under perf c2c,
// and the median of the result that is repeated; 0 if there is none.
type Throughput struct {
	Unwatched float64 `json:"unwatched"`
	C2C       float64 `json:"perf_c2c"`
	Result    float64 `json:"result"`
}

// Profile makes a run of [Windows] repeats, with perf attached to its ranks in the last. perf
// writes to dir, which no other user may write.
func (p *Perf) Profile(ctx context.Context, e *experiment.Engine, run experiment.Run,
	obs experiment.Observer, dir string) (*Profile, error) {
	interrupted := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &watcher{Observer: obs, pids: map[int]int{}}
	run.Wrap = w.wrap
	shown := &Profile{Kind: result.KindProfile, Transport: run.Config.Transport,
		Config: run.Config, Readings: set.New()}
	var recordFailed error
	during := time.Duration(watchedShare * float64(run.Config.Duration))
	w.window = func(nth int, pids []int) {
		if nth == Windows {
			recordFailed = p.Record(ctx, pids, during, dir)
		}
	}
	r, err := e.Run(ctx, run, w)
	if err != nil {
		cancel()
	}
	w.watching.Wait()
	switch {
	case interrupted.Err() != nil:
		return nil, interrupted.Err()
	case err != nil:
		return nil, err
	case len(r.Repeats) != Windows:
		return nil, fmt.Errorf("the run had %d of %d windows", len(r.Repeats), Windows)
	}
	if recordFailed == nil {
		shown.Sharing, recordFailed = p.Report(ctx, dir)
	}
	shown.Throughput.Unwatched = r.Repeats[0].Samples[result.Throughput]
	if shown.Threads = threadsOf(&r.Repeats[0]); shown.Threads == nil {
		shown.NoThreads = noThreads(&r.Repeats[0])
	}
	if shown.NoSharing = printable.Joined(recordFailed); recordFailed == nil {
		shown.Throughput.C2C = r.Repeats[1].Samples[result.Throughput]
		if err := shown.addRun(r); err != nil {
			return nil, err
		}
	}
	for _, check := range r.Checks {
		if !check.OK && check.Severity == result.Error {
			e.Note(fmt.Sprintf("%s: %s", check.Name, check.Message))
		}
	}
	return shown, nil
}

// figureMetrics are the metrics of the figures of perf c2c, by perf's names.
var figureMetrics = map[string]string{
	"Total records": "records", "Load Local HITM": "local_hitm",
	"Load Remote HITM": "remote_hitm", "Load Fill Buffer Hit": "fill_buffer",
	"Load L1D hit": "l1_hit", "Load LLC hit": "llc_hit",
	"Load access blocked by address":    "blocked",
	"LLC Misses to Remote DRAM":         "remote_dram_share",
	"LLC Misses to Remote cache (HITM)": "remote_cache_share",
	"Total Shared Cache Lines":          "shared_lines",
}

// addReadings adds the figures of Sharing, as a microbenchmark's because perf slows what it
// watches. like is as of [set.Set.AddReading], and micro the name of the reading.
func (p *Profile) addReadings(like set.Cell, environment machine.Environment, micro string) error {
	metrics := map[string]float64{}
	for _, f := range p.Sharing.Figures {
		if metric, known := figureMetrics[f.Name]; known {
			if metrics[metric] = f.Value; f.Percent {
				metrics[metric] = f.Value / 100
			}
		}
	}
	return p.Readings.AddReading(like, environment, map[string]string{set.MicroOption: micro},
		metrics)
}

// addRun is addReadings for a run.
func (p *Profile) addRun(r *result.Result) error {
	c, err := p.Readings.NewCell(r)
	if err != nil {
		return err
	}
	like := set.Cell{Config: c.Config, Tool: c.Tool, StartedAt: c.StartedAt, Plugin: c.Plugin}
	return p.addReadings(like, r.Environment, result.KindProfile)
}

// Micro is [Perf.Profile] of one reading of a plugin's microbenchmarks, such as
// "write/inline": it has the loads and stores of the plugin's process and of those
// that it starts, with their start.
func (p *Perf) Micro(ctx context.Context, plugin *experiment.Plugin, reading string,
	d time.Duration, dir string) (*Profile, error) {
	name, _, _ := strings.Cut(reading, "/")
	request, err := json.Marshal(record.MicroRequest{Names: []string{name}, Duration: d,
		Options: map[string]string{transport.OptionReading: reading}})
	if err != nil {
		return nil, err
	}
	tool, shown := experiment.Tool(), &Profile{Kind: result.KindProfile,
		Transport: plugin.Identity.Name, Micro: reading,
		NoThreads: "micro --counters has those of a microbenchmark", Readings: set.New()}
	err = p.record(ctx, dir, plugin.Path, "micro", string(request))
	if err == nil {
		shown.Sharing, err = p.Report(ctx, dir)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if shown.NoSharing = printable.Joined(err); err != nil {
		return shown, nil
	}
	return shown, shown.addReadings(set.Cell{
		Config: map[string]string{"transport": shown.Transport},
		Tool:   &tool, StartedAt: shown.Readings.CreatedAt, Plugin: set.PluginOf(&plugin.Identity),
	}, machine.ReadEnvironment(), result.KindProfile+"/"+reading)
}

// Err returns an error if nothing was counted or sampled.
func (p *Profile) Err() error {
	if p.NoThreads != "" && p.NoSharing != "" {
		return errors.New("no thread counted events, and perf failed")
	}
	return nil
}

// watcher calls window at the beginning of each window, in a goroutine of its own, and one after
// another.
type watcher struct {
	experiment.Observer
	experiment.Launcher
	window   func(nth int, pids []int)
	watching sync.WaitGroup

	turn   sync.Mutex // of window
	mu     sync.Mutex
	pids   map[int]int // by rank
	inside bool        // a window
}

func (w *watcher) wrap(l experiment.Launcher) experiment.Launcher {
	w.Launcher = l
	return w
}

// Launch implements [experiment.Launcher].
func (w *watcher) Launch(ctx context.Context, rank int) (experiment.Process, error) {
	p, err := w.Launcher.Launch(ctx, rank)
	if err != nil {
		return nil, err
	}
	if local, is := p.(interface{ PID() int }); is {
		w.mu.Lock()
		w.pids[rank] = local.PID()
		w.mu.Unlock()
	}
	return p, nil
}

// Progress implements [experiment.Observer].
func (w *watcher) Progress(s experiment.RunStatus) {
	w.Observer.Progress(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	began := s.Step == experiment.StepRepeat && !w.inside
	w.inside = s.Step == experiment.StepRepeat
	if !began {
		return
	}
	var pids []int
	for _, pid := range w.pids {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	w.watching.Go(func() {
		w.turn.Lock()
		defer w.turn.Unlock()
		w.window(s.Repeat, pids)
	})
}
