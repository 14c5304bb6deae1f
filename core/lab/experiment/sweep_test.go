package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/fabric/fabrictest"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/experiment/trace"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{"sweep": sweepUntilKilled}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// known has the transports shm, with the option ring, and erpc, with mtu.
var known = Plugins{
	"shm":  knownPlugin("shm", "ring"),
	"erpc": knownPlugin("erpc", "mtu"),
}

// stub cannot run here.
var stub = &Plugin{Identity: result.Plugin{Name: "stub"},
	Info: transport.Info{Name: "stub", Unavailable: "no such device"}}

func knownPlugin(name string, own ...string) *Plugin {
	p := &Plugin{
		Identity: result.Plugin{Name: name}, Info: transport.Info{Name: name},
		Launcher: func(io.Writer, bool) (runner.Launcher, error) { return nil, nil },
	}
	for _, option := range own {
		p.Info.Options = append(p.Info.Options,
			transport.Option{Name: option, Type: transport.TypeString})
	}
	return p
}

// options are those of a sweep in tests.
type options struct {
	Dir              string
	Resume           bool
	Measure          Measure
	Watcher          Watcher
	Limit, CellLimit time.Duration
	Origin           origin
}

// runSweep makes a sweep whose runs Measure makes.
func runSweep(ctx context.Context, p *Plan, o options) (*Outcome, error) {
	e := &Engine{Traces: trace.NewCache(nil), Make: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		return o.Measure(ctx, req.Config, obs)
	}}
	e.Environment.Identity.Kernel = o.Origin.Machine["kernel"]
	plugins := Plugins{}
	for i := range p.Cells {
		name := p.Cells[i].Config.Transport
		plugins[name] = knownPlugin(name)
		plugins[name].Identity.SHA256 = o.Origin.Plugins[name]
	}
	spec := NewSpec()
	spec.Limit, spec.CellLimit = o.Limit, o.CellLimit
	return e.Sweep(ctx, &Sweep{Spec: spec, Plan: p, Plugins: plugins, Dir: o.Dir, Resume: o.Resume},
		o.Watcher)
}

// measured returns the result of a run with one repeat.
func measured(c config.Config, throughput float64) *result.Result {
	client := record.ClientReport{ElapsedNS: 1e9, Reads: uint64(throughput),
		VerifiedKeys: uint64(throughput), VerifiedSums: uint64(throughput)}
	repeat := result.Repeat{
		Samples: map[string]float64{result.Throughput: throughput},
		Ranks:   []record.Report{{Rank: 1, Clients: []record.ClientReport{client}}},
	}
	return &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
		StartedAt: time.Now(),
		Config:    c, Plugin: result.Plugin{Name: c.Transport, Provider: "memfd"},
		Repeats: []result.Repeat{repeat}, Summary: result.SummarizeRepeats([]result.Repeat{repeat}),
	}
}

// watcher records its calls.
type watcher struct {
	io.Writer
	begun []Status
	cells []string
	again []string
}

func (w *watcher) Begin(s Status) runner.Observer { w.begun = append(w.begun, s); return nil }
func (w *watcher) Again(s Status, reason, log string) {
	w.again = append(w.again, fmt.Sprintf("%s %d: %s: %s", s.Label, s.Repeat, reason, log))
}
func (w *watcher) Cell(s Status, c *set.Cell) {
	w.cells = append(w.cells, fmt.Sprintf("%s %s %d %s", s.Label, c.Status,
		len(c.Samples[result.Throughput]), c.Reason))
}

func plan(t *testing.T, text string) *Plan {
	t.Helper()
	plugins := maps.Clone(known)
	if strings.Contains(text, "stub") {
		plugins["stub"] = stub
	}
	p, err := Expand(parse(t, text), plugins)
	require.NoError(t, err)
	return p
}

const matrix = "repeats: 3\naxes: {transport: [shm, erpc], in-flight: [1, 8]}\n"

// good always measures successfully.
func good(_ context.Context, c config.Config, _ runner.Observer) (*result.Result, error) {
	return measured(c, float64(c.InFlight)*1e6), nil
}

func TestSweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	w := new(watcher)
	outcome, err := runSweep(t.Context(), plan(t, matrix),
		options{Dir: dir, Measure: good, Watcher: w})
	require.NoError(t, err)
	require.Equal(t, 4, outcome.Complete)
	require.Len(t, w.begun, 12)
	require.Equal(t, 12, w.begun[11].Run)
	require.Len(t, w.cells, 4)

	s, err := set.Load(dir)
	require.NoError(t, err)
	require.Len(t, s.Cells, 4)
	for _, c := range s.Cells {
		require.Len(t, c.Samples[result.Throughput], 3)
		require.False(t, c.Incomplete)
		results, err := s.Results(&c)
		require.NoError(t, err)
		require.Len(t, results, 1)
		require.Len(t, results[0].Repeats, 3)
		require.Equal(t, 3, results[0].Config.Repeats)
	}
	require.Equal(t, []string{"cells", "index.json", "repeats", "sweep.plan"}, names(t, dir))
	require.Empty(t, names(t, filepath.Join(dir, "repeats")))

	_, err = runSweep(t.Context(), plan(t, matrix), options{Dir: dir, Measure: good, Watcher: w})
	require.ErrorIs(t, err, ErrExists)
	w = new(watcher)
	outcome, err = runSweep(t.Context(), plan(t, matrix),
		options{Dir: dir, Resume: true, Measure: good, Watcher: w})
	require.NoError(t, err)
	require.Equal(t, 4, outcome.Complete)
	require.Empty(t, w.begun, "nothing is measured twice")
}

// The response times of an open loop are pooled over all windows, of which a file has the clients'
// counts alone.
func TestSweepsPoolResponseTimes(t *testing.T) {
	h := record.NewHistogram()
	for range 100 {
		h.Record(2000)
	}
	open := func(_ context.Context, c config.Config, _ runner.Observer) (*result.Result, error) {
		r := measured(c, 1e3)
		w := &r.Repeats[0]
		w.Response = h.Encode()
		w.Ranks[0].Clients[0].Open = &record.OpenReport{
			Response: record.TimingReport{Histogram: h.Encode()}}
		return r, nil
	}
	dir := t.TempDir()
	_, err := runSweep(t.Context(), plan(t, "repeats: 2\nbase: {transport: shm, rate: 1000}\n"),
		options{Dir: dir, Measure: open, Watcher: new(watcher)})
	require.NoError(t, err)
	s, err := set.Load(dir)
	require.NoError(t, err)
	require.EqualValues(t, 200, s.Cells[0].Pooled[result.ResponseP50].Samples)
	results, err := s.Results(&s.Cells[0])
	require.NoError(t, err)
	require.EqualValues(t, 200, results[0].Pooled[result.ResponseP50].Samples)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestCellsThatFailAreRecordedAndTheSweepGoesOn(t *testing.T) {
	dir := t.TempDir()
	w := new(watcher)
	calls := 0
	measure := func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		switch {
		case c.Transport == "erpc" && c.InFlight == 1:
			return nil, fmt.Errorf("rank 1: run: the plugin\ncrashed")
		case c.Transport == "erpc":
			return nil, transport.Unavailable("no such %s", "NIC")
		case c.InFlight == 8:
			calls++
			if calls >= 2 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		return good(ctx, c, obs)
	}
	p := plan(t, "repeats: 3\naxes: {transport: [shm, erpc, stub], in-flight: [1, 8]}\nexclude: "+
		"[{transport: stub, in-flight: 1}]\n")
	outcome, err := runSweep(t.Context(), p, options{Dir: dir, Measure: measure, Watcher: w,
		CellLimit: 50 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, 1, outcome.Complete)
	require.Equal(t, 2, outcome.Failed)

	s, err := set.Load(dir)
	require.NoError(t, err)
	require.Len(t, s.Cells, 5)
	got := map[string]set.Cell{}
	for _, c := range s.Cells {
		got[c.Transport()+c.Config["in_flight"]] = c
	}
	require.Equal(t, set.Measured, got["shm1"].Status)
	require.Equal(t, set.Failed, got["shm8"].Status)
	require.Regexp(t,
		`^a repeat took longer than the cell limit of 50ms; tried 2 times, see logs/shm-\w+-repeat-2-try-2.log$`, got["shm8"].Reason)
	require.Len(t, got["shm8"].Samples[result.Throughput], 1)
	require.Regexp(t, `^rank 1: run: the plugin; crashed; tried 2 times, see logs/erpc-`,
		got["erpc1"].Reason)
	require.Equal(t, set.Unavailable, got["erpc8"].Status)
	require.Contains(t, got["erpc8"].Reason, "no such NIC")
	require.Equal(t, set.Unavailable, got["stub8"].Status)
	require.Len(t, w.begun, 3+3+2+1)
	require.Len(t, w.again, 2)

	// Failed cells are tried again, and keep the repeats that they had.
	w = new(watcher)
	outcome, err = runSweep(t.Context(), p, options{Dir: dir, Resume: true, Measure: good,
		Watcher: w})
	require.NoError(t, err)
	require.Equal(t, 4, outcome.Complete)
	require.Len(t, w.begun, 2+3+3)
}

// TestAFailedRunIsMadeOnceMore checks that a single failure costs no cell, and that its log stays.
func TestAFailedRunIsMadeOnceMore(t *testing.T) {
	dir := t.TempDir()
	w := new(watcher)
	calls := 0
	measure := func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		if calls++; calls != 2 {
			return good(ctx, c, obs)
		}
		r := measured(c, 1)
		r.Repeats, r.FailedRepeat = nil,
			&result.Repeat{Index: 1, Starved: "rank 1 had no processor"}
		return r, fmt.Errorf("rank 1: run: %w",
			&record.ExitError{Plugin: "shm", PID: 7, State: "signal: killed",
				Output: []string{"one line", "an escape \x1b[2J"}})
	}
	outcome, err := runSweep(t.Context(), plan(t, "repeats: 3\naxes: {transport: [shm]}\n"),
		options{Dir: dir, Measure: measure, Watcher: w})
	require.NoError(t, err)
	require.Zero(t, outcome.Failed)
	require.Equal(t, 1, outcome.Complete)
	require.Equal(t, 4, calls)
	require.Len(t, w.again, 1)
	require.Contains(t, w.again[0],
		"shm 2: rank 1: run: plugin shm (pid 7) died: signal: killed: logs/shm-")
	_, log, _ := strings.Cut(w.again[0], "killed: ")
	text, err := os.ReadFile(filepath.Join(dir, log))
	require.NoError(t, err)
	for _, part := range []string{"repeat 2, try 1\nrank 1: run: plugin shm",
		"one line\nan escape \\x1b[2J\n", "rank 1 had no processor"} {
		require.Contains(t, string(text), part)
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	require.Len(t, s.Cells, 1)
}

func TestInterruptAndResume(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	count := 0
	stopping := func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		if count++; count == 6 {
			cancel()
			return nil, ctx.Err()
		}
		return good(ctx, c, obs)
	}
	outcome, err := runSweep(ctx, plan(t, matrix),
		options{Dir: dir, Measure: stopping, Watcher: new(watcher)})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, outcome.Complete)
	s, err := set.Load(dir)
	require.NoError(t, err)
	require.Len(t, s.Cells, 4)
	require.True(t, s.Cells[0].Incomplete)
	require.NotEmpty(t, s.Cells[0].Files)

	w := new(watcher)
	outcome, err = runSweep(t.Context(), plan(t, matrix),
		options{Dir: dir, Resume: true, Measure: good, Watcher: w})
	require.NoError(t, err)
	require.Equal(t, 4, outcome.Complete)
	require.Len(t, w.begun, 12-5)
}

// The checks of a cell that is not complete are over all its windows, in the sweep's outcome and
// when its directory is read.
func TestUnfinishedCellsAreJudgedOnce(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	count := 0
	mixed := func(ctx context.Context, c config.Config, _ runner.Observer) (*result.Result, error) {
		if count++; count == 5 {
			cancel()
			return nil, ctx.Err()
		}
		r := measured(c, 1e6)
		r.Repeats[0].Before.CoreDistance, r.Repeats[0].After.CoreDistance = 50, 500
		r.Repeats[0].Mixed = true
		r.Checks = []result.Finding{{Name: "mixed", Severity: result.Warning,
			Message: "1 of 1 windows"}}
		return r, nil
	}
	outcome, err := runSweep(ctx, plan(t, "repeats: 6\naxes: {in-flight: [1]}\n"),
		options{Dir: dir, Measure: mixed, Watcher: new(watcher)})
	require.ErrorIs(t, err, context.Canceled)
	read, err := consistency.ReadSet(dir)
	require.NoError(t, err)
	for _, s := range []*set.Set{outcome.Set, read} {
		var texts []string
		for _, w := range s.Cells[0].Warnings {
			if w.Name == "mixed" {
				texts = append(texts, w.Message)
			}
		}
		require.Len(t, texts, 1)
		require.Contains(t, texts[0], "4 of 4 windows are mixed")
	}
}

// No link in a sweep's directory leads a removal out of it.
func TestRemovalsStayInTheDirectory(t *testing.T) {
	dir, victim := t.TempDir(), t.TempDir()
	p := plan(t, "repeats: 1\naxes: {transport: [shm]}\n")
	_, err := runSweep(t.Context(), p, options{Dir: dir, Measure: good, Watcher: new(watcher)})
	require.NoError(t, err)
	// What a stranger may do in a directory that everybody may write to.
	precious := filepath.Join(victim, p.Cells[0].ID, "precious")
	require.NoError(t, os.MkdirAll(precious, 0o700))
	link := func(name string) {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink(victim, filepath.Join(dir, name)))
	}
	for _, name := range []string{"cells", "repeats", "logs"} {
		link(name)
		for _, resume := range []bool{true, false} {
			_, err = runSweep(t.Context(), p, options{Dir: dir, Resume: resume, Measure: good,
				Watcher: new(watcher)})
			var changed *ChangedError
			require.ErrorAs(t, err, &changed)
			require.EqualError(t, err, dir+": "+name+" is a link or a file instead of a "+
				"directory: remove it to go on; choose another --out for a new sweep")
		}
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	linking := func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		link("repeats")
		return good(ctx, c, obs)
	}
	_, err = runSweep(t.Context(), p, options{Dir: dir, Resume: true, Measure: linking,
		Watcher: new(watcher)})
	require.ErrorContains(t, err, "path escapes from parent")
	require.DirExists(t, precious)
}

// Files beside those of repeats neither count as repeats nor stop a sweep.
func TestStrayFilesAmongRepeats(t *testing.T) {
	dir := t.TempDir()
	p := plan(t, "repeats: 3\naxes: {transport: [shm]}\n")
	count := 0
	failing := func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		if count++; count > 1 {
			return nil, errors.New("no more")
		}
		for _, name := range []string{"1.json", "+1.json", "-001.json", "0002", "0002.json.old"} {
			path := filepath.Join(dir, "repeats", p.Cells[0].ID, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
		}
		return good(ctx, c, obs)
	}
	_, err := runSweep(t.Context(), p, options{Dir: dir, Measure: failing, Watcher: new(watcher)})
	require.NoError(t, err)
	w := new(watcher)
	outcome, err := runSweep(t.Context(), p, options{Dir: dir, Resume: true, Measure: good,
		Watcher: w})
	require.NoError(t, err)
	require.Equal(t, 1, outcome.Complete)
	require.Len(t, w.begun, 2)
	require.Empty(t, w.again)
	require.Len(t, outcome.Set.Cells[0].Samples[result.Throughput], 3)
}

// A file of results that something has damaged stops --resume until it is gone. Then that is
// measured again, and nothing else.
func TestDamagedFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	p := plan(t, "repeats: 3\naxes: {transport: [shm]}\n")
	sweep := func(resume bool, measure Measure) (*Outcome, int, error) {
		w := new(watcher)
		outcome, err := runSweep(t.Context(), p,
			options{Dir: dir, Resume: resume, Measure: measure, Watcher: w})
		return outcome, len(w.begun), err
	}
	count := 0
	_, _, err := sweep(false, func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		if count++; count > 2 {
			return nil, errors.New("no more")
		}
		return good(ctx, c, obs)
	})
	require.NoError(t, err)
	for _, c := range []struct {
		pattern  string
		measured int
	}{{"repeats/*/0000.json", 2}, {"cells/*.json", 3}} {
		paths, err := filepath.Glob(filepath.Join(dir, c.pattern))
		require.NoError(t, err)
		require.Len(t, paths, 1)
		for _, text := range []string{"{\"schema_version\": \"2.0.0\", \"ki", "", "{}"} {
			require.NoError(t, os.WriteFile(paths[0], []byte(text), 0o600))
			_, _, err = sweep(true, good)
			require.ErrorContains(t, err, paths[0])
			require.ErrorContains(t, err, "without the file, --resume measures that again")
		}
		require.NoError(t, os.Remove(paths[0]))
		outcome, measured, err := sweep(true, good)
		require.NoError(t, err)
		require.Equal(t, c.measured, measured)
		require.Equal(t, 1, outcome.Complete)
		require.Len(t, outcome.Set.Cells[0].Samples[result.Throughput], 3)
	}
}

func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, c config.Config, obs runner.Observer) (
			*result.Result, error) {
			time.Sleep(2 * time.Millisecond)
			return good(ctx, c, obs)
		}
		outcome, err := runSweep(t.Context(), plan(t, matrix), options{
			Dir: t.TempDir(), Measure: slow, Watcher: new(watcher), Limit: time.Millisecond,
		})
		require.NoError(t, err)
		require.True(t, outcome.OutOfTime)
		require.Len(t, outcome.Set.Cells, 1)
	})
}

// timed is a watcher that also knows when runs began.
type timed struct {
	watcher
	at []time.Time
}

func (w *timed) Begin(s Status) runner.Observer {
	w.at = append(w.at, time.Now())
	return w.watcher.Begin(s)
}

// The time that is left follows from how long runs have taken: on a machine that is half as slow
// again as planned, it is right within a fifth from the second run on.
func TestTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan(t, "repeats: 5\nbase: {duration: 1s}\naxes: {transport: [shm, erpc], "+
			"in-flight: [1, 32]}\n")
		measure := func(_ context.Context, c config.Config, _ runner.Observer) (*result.Result,
			error) {
			i := slices.IndexFunc(p.Cells, func(cell Cell) bool {
				return cell.Config.Transport == c.Transport && cell.Config.InFlight == c.InFlight
			})
			time.Sleep(p.Cells[i].Expected(runner.Beside{}) * 3 / 2)
			return measured(c, 1e6), nil
		}
		w := new(timed)
		_, err := runSweep(t.Context(), p, options{Dir: t.TempDir(), Measure: measure, Watcher: w})
		require.NoError(t, err)
		require.Len(t, w.at, 20)
		for i, s := range w.begun[1:] {
			require.InEpsilon(t, time.Since(w.at[i+1]), s.Left, 0.2)
		}
	})
}

func TestChangesAreNoticed(t *testing.T) {
	dir := t.TempDir()
	known := origin{Plugins: map[string]string{"shm": "aaa"},
		Machine: map[string]string{"kernel": "6.1"}}
	begun := options{Dir: dir, Measure: good, Watcher: new(watcher), Origin: known}
	_, err := runSweep(t.Context(), plan(t, matrix), begun)
	require.NoError(t, err)
	begun.Resume = true
	for text, want := range map[string]string{
		strings.Replace(matrix, "8", "9", 1): "2 cells are new and 2 are missing",
		strings.Replace(matrix, "3", "4", 1): "it had 3 repeats and now has 4",
		matrix + "order-seed: 2\n":           "its order changed, or options",
	} {
		_, err = runSweep(t.Context(), plan(t, text), begun)
		var changed *ChangedError
		require.ErrorAs(t, err, &changed)
		require.ErrorContains(t, err, want)
	}
	begun.Origin = origin{Plugins: map[string]string{"shm": "bbb"}, Machine: known.Machine}
	_, err = runSweep(t.Context(), plan(t, matrix), begun)
	require.ErrorContains(t, err, "plugin of transport shm")
	begun.Origin = origin{Plugins: known.Plugins, Machine: map[string]string{"kernel": "6.2"}}
	_, err = runSweep(t.Context(), plan(t, matrix), begun)
	require.ErrorContains(t, err, `kernel was "6.1" and is now "6.2"`)

	begun.Origin = known
	require.NoError(t, os.WriteFile(filepath.Join(dir, planName), []byte("{\n\"kind\": 1"), 0o600))
	_, err = runSweep(t.Context(), plan(t, matrix), begun)
	require.ErrorContains(t, err, "line 2")
	begun.Dir = filepath.Join(dir, "none")
	_, err = runSweep(t.Context(), plan(t, matrix), begun)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A transport that the machine had not when the sweep began, and has when it is resumed, is
// measured then.
func TestResumeWithATransportThatHasCome(t *testing.T) {
	dir := t.TempDir()
	p := plan(t, matrix)
	for i := range p.Cells {
		if p.Cells[i].Config.Transport == "erpc" {
			p.Cells[i].Unavailable = "no such NIC"
		}
	}
	outcome, err := runSweep(t.Context(), p,
		options{Dir: dir, Measure: good, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Equal(t, 2, outcome.Complete)
	require.Equal(t, 2, outcome.Unavailable)
	w := new(watcher)
	outcome, err = runSweep(t.Context(), plan(t, matrix),
		options{Dir: dir, Resume: true, Measure: good, Watcher: w})
	require.NoError(t, err)
	require.Equal(t, 4, outcome.Complete)
	require.Zero(t, outcome.Unavailable)
	require.Len(t, w.begun, 6)
	outcome, err = runSweep(t.Context(), p, options{Dir: dir, Resume: true, Measure: good,
		Watcher: w})
	require.NoError(t, err)
	require.Equal(t, 4, outcome.Complete, "what was measured stays")
	require.Len(t, outcome.Set.Cells[3].Samples[result.Throughput], 3)
}

func TestTwoSweepsInOneDirectory(t *testing.T) {
	dir := t.TempDir()
	inside := func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		_, err := runSweep(ctx, plan(t, matrix), options{Dir: dir, Resume: true, Measure: good,
			Watcher: new(watcher)})
		require.ErrorContains(t, err, "another process uses this directory")
		return good(ctx, c, obs)
	}
	_, err := runSweep(t.Context(), plan(t, matrix),
		options{Dir: dir, Measure: inside, Watcher: new(watcher)})
	require.NoError(t, err)
}

// Repeats on different providers cannot be one cell.
func TestRepeatsThatDoNotFitTogether(t *testing.T) {
	count := 0
	measure := func(ctx context.Context, c config.Config, obs runner.Observer) (
		*result.Result, error) {
		r, err := good(ctx, c, obs)
		if count++; count == 3 {
			r.Plugin.Provider = "another"
		}
		return r, err
	}
	outcome, err := runSweep(t.Context(), plan(t, "repeats: 3\n"),
		options{Dir: t.TempDir(), Measure: measure, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Equal(t, 1, outcome.Failed)
	require.Contains(t, outcome.Set.Cells[0].Reason, "not the same plugin")
}
