package sweep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/config"
	"transportbench/core/result"
	"transportbench/core/result/set"
	"transportbench/core/runner"
	"transportbench/core/transport"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("SWEEP_TEST_DIR"); dir != "" {
		os.Exit(sweepUntilKilled(dir))
	}
	goleak.VerifyTestMain(m)
}

// resolver knows the transports shm, with the option ring, and erpc, with mtu.
type resolver struct{}

func (resolver) Own(name string) ([]string, bool) {
	names, ok := map[string][]string{"shm": {"ring"}, "erpc": {"mtu"}, "stub": {}}[name]
	return names, ok
}
func (resolver) Transports() []string { return []string{"erpc", "shm"} }
func (resolver) IsOption(name string) bool {
	return slices.Contains([]string{"in-flight", "value-size", "duration"}, name)
}

func (resolver) Resolve(name string, values, own map[string]string) (config.Config, string, error) {
	c := config.Default()
	c.Transport, c.Options, c.Warmup = name, maps.Clone(own), 0
	if text, has := values["in-flight"]; has {
		if _, err := fmt.Sscan(text, &c.InFlight); err != nil {
			return c, "", errors.New("in-flight: not a number")
		}
	}
	if text, has := values["value-size"]; has {
		if err := c.ValueSize.Set(text); err != nil {
			return c, "", err
		}
	}
	if name == "stub" {
		return c, "no such device", nil
	}
	return c, "", nil
}

func parse(t *testing.T, text string) *Spec {
	t.Helper()
	s, err := Parse("s.yaml", []byte(text))
	require.NoError(t, err)
	return s
}

func cellsOf(t *testing.T, s *Spec) []string {
	t.Helper()
	p, err := Expand(s, resolver{})
	require.NoError(t, err)
	var cells []string
	for i := range p.Cells {
		c := &p.Cells[i].Config
		text := fmt.Sprintf("%s %d %s", c.Transport, c.InFlight, c.ValueSize)
		for _, name := range slices.Sorted(maps.Keys(c.Options)) {
			text += " " + name + "=" + c.Options[name]
		}
		cells = append(cells, text)
	}
	return cells
}

func TestExpand(t *testing.T) {
	require.Equal(t, []string{
		"shm 1 32 ring=a", "shm 1 4KiB ring=a", "shm 8 32 ring=a", "shm 8 4KiB ring=a",
		"erpc 1 32", "erpc 1 4KiB", // the axis ring is not erpc's
		"erpc 64 32",
	}, cellsOf(t, parse(t, `
base: {value-size: 32}
axes:
  transport: [shm, erpc]
  in-flight: [1, 8]
  payload: [32, 4KiB]
  ring: a
exclude:
  - {transport: erpc, in-flight: 8}
include:
  - {transport: erpc, in-flight: 64}
`)))
	require.Equal(t, []string{"shm 1 32 ring=x", "shm 1 32 ring=y", "erpc 1 32 mtu=9"}, cellsOf(t, parse(t, `
axes: {transport: [shm, erpc], shm.ring: [x, y]}
base: {set: {mtu: 9}}
`)))
	require.Equal(t, []string{"erpc 1 32", "erpc 4 1KiB", "shm 1 32", "shm 4 1KiB"}, cellsOf(t, parse(t, `
base: {transport: all}
axes:
  load:
    - {in-flight: 1}
    - {in-flight: 4, value_size: 1KiB}
`)))
	require.Equal(t, []string{"shm 1 32"}, cellsOf(t, parse(t, "repeats: 3\norder: sequential\n")))
}

func TestSpecOfEveryFormatIsTheSame(t *testing.T) {
	yaml := parse(t, "repeats: 3\nlimit: 1m\nbase: {in-flight: 4}\naxes: {transport: [shm, erpc]}\n")
	toml, err := Parse("s.toml", []byte("repeats = 3\nlimit = \"1m\"\n[base]\nin-flight = 4\n[axes]\ntransport = [\"shm\", \"erpc\"]\n"))
	require.NoError(t, err)
	json, err := Parse("s.json", []byte(`{"repeats": 3, "limit": "1m", "base": {"in-flight": 4}, "axes": {"transport": ["shm", "erpc"]}}`))
	require.NoError(t, err)
	require.Equal(t, yaml, toml)
	require.Equal(t, yaml, json)
	require.Equal(t, time.Minute, yaml.Limit)

	flags := NewSpec()
	flags.Repeats, flags.Limit = 3, time.Minute
	flags.Set("transport", []string{"shm", "erpc"})
	flags.Set("in_flight", []string{"4"})
	require.Equal(t, yaml, flags)
}

func TestBadSpecs(t *testing.T) {
	for text, want := range map[string]string{
		"axis: {a: 1}":                `unknown key "axis"; did you mean "axes"?`,
		"repeats: 0":                  "repeats: 0 is outside",
		"repeats: many":               "repeats:",
		"order: interleavd":           `did you mean "interleaved"?`,
		"limit: -1s":                  "negative",
		"limit: soon":                 "limit:",
		"axes: [a]":                   "axes: is not a table",
		"axes: {in-flight: []}":       "has no values",
		"axes: {in-flight: [[1]]}":    "neither plain nor a table",
		"exclude: {a: b}":             "exclude: is not a list",
		"base: {a: [1]}":              "a is not a plain value",
		"base: {in-flight: 1":         "yaml",
		"base: {}\nbase: {}":          "base",
		"axes: {in-flight: [x]}":      "not a number",
		"axes: {colour: [red]}":       `unknown option "colour"`,
		"base: {repeats: 3}":          "repeats is one for the whole sweep",
		"axes: {transport: [tcpx]}":   `no plugin for "tcpx"`,
		"exclude: [{in-flight: 9}]":   "exclude: item 1 matches no cell",
		"exclude: [{transport: shm}]": "no cell is left",
		"axes: {in-flight: [" + strings.Repeat("1,", 99_999) + "1], value-size: [1, 2]}": "more than",
	} {
		s, err := Parse("s.yaml", []byte(text))
		if err == nil {
			_, err = Expand(s, resolver{})
		}
		require.ErrorContains(t, err, want, "%.60s", text)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := Parse("s.txt", nil)
	require.ErrorContains(t, err, "must end in .yaml")
}

func FuzzParse(f *testing.F) {
	f.Add("axes: {transport: [shm, erpc], in-flight: [1, 2]}\nexclude: [{in-flight: 2}]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("s.yaml", []byte(text))
		if err == nil {
			_, _ = Expand(s, resolver{})
		}
	})
}

func TestOrder(t *testing.T) {
	p := &Plan{Cells: make([]Cell, 20), Repeats: 3, Order: Interleaved, Seed: 1}
	steps := p.steps()
	require.Len(t, steps, 60)
	var rounds [3][]int
	for i, s := range steps {
		require.Equal(t, i/20, s.repeat, "a round is over before the next begins")
		rounds[s.repeat] = append(rounds[s.repeat], s.cell)
	}
	require.NotEqual(t, rounds[0], rounds[1])
	require.ElementsMatch(t, rounds[0], rounds[1])
	require.Equal(t, steps, p.steps(), "the seed decides")
	p.Seed = 2
	require.NotEqual(t, steps, p.steps())
	p.Order = Sequential
	require.Equal(t, step{0, 1}, p.steps()[1])
}

// measured is a result of one repeat, as a run makes it.
func measured(c config.Config, throughput float64) *result.Result {
	repeat := result.Repeat{Samples: map[string]float64{result.Throughput: throughput}}
	return &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(), StartedAt: time.Now(),
		Config: c, Plugin: result.Plugin{Name: c.Transport, Provider: "memfd"},
		Repeats: []result.Repeat{repeat}, Summary: result.SummarizeRepeats([]result.Repeat{repeat}),
	}
}

// watcher keeps what it was told.
type watcher struct {
	begun []State
	cells []string
}

func (w *watcher) Begin(s State) runner.Observer { w.begun = append(w.begun, s); return nil }
func (w *watcher) Cell(s State, c *set.Cell) {
	w.cells = append(w.cells, fmt.Sprintf("%s %s %d %s", s.Label, c.Status, len(c.Samples[result.Throughput]), c.Reason))
}

func plan(t *testing.T, text string) *Plan {
	t.Helper()
	p, err := Expand(parse(t, text), resolver{})
	require.NoError(t, err)
	return p
}

const matrix = "repeats: 3\naxes: {transport: [shm, erpc], in-flight: [1, 8]}\n"

// good measures without fail.
func good(_ context.Context, c config.Config, _ runner.Observer) (*result.Result, error) {
	return measured(c, float64(c.InFlight)*1e6), nil
}

func TestSweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	w := new(watcher)
	rounds := 0
	outcome, err := Run(t.Context(), plan(t, matrix), Options{Dir: dir, Measure: good, Watcher: w, Round: func() { rounds++ }})
	require.NoError(t, err)
	require.Equal(t, 4, outcome.Complete)
	require.Equal(t, 2, rounds)
	require.Len(t, w.begun, 12)
	require.Equal(t, 12, w.begun[11].Step)
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

	_, err = Run(t.Context(), plan(t, matrix), Options{Dir: dir, Measure: good, Watcher: w})
	require.ErrorIs(t, err, ErrExists)
	w = new(watcher)
	outcome, err = Run(t.Context(), plan(t, matrix), Options{Dir: dir, Resume: true, Measure: good, Watcher: w})
	require.NoError(t, err)
	require.Equal(t, 4, outcome.Complete)
	require.Empty(t, w.begun, "nothing is measured twice")
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
	measure := func(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error) {
		switch {
		case c.Transport == "erpc" && c.InFlight == 1:
			return nil, fmt.Errorf("rank 1: run: the plugin\ncrashed")
		case c.Transport == "erpc":
			return nil, transport.Unavailable("no such %s", "NIC")
		case c.InFlight == 8:
			calls++
			if calls == 2 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		return good(ctx, c, obs)
	}
	p := plan(t, "repeats: 3\naxes: {transport: [shm, erpc, stub], in-flight: [1, 8]}\nexclude: [{transport: stub, in-flight: 1}]\n")
	outcome, err := Run(t.Context(), p, Options{Dir: dir, Measure: measure, Watcher: w, CellLimit: 50 * time.Millisecond})
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
	require.Equal(t, "a repeat took longer than the limit of 50ms", got["shm8"].Reason)
	require.Len(t, got["shm8"].Samples[result.Throughput], 1)
	require.Equal(t, "rank 1: run: the plugin; crashed", got["erpc1"].Reason)
	require.Equal(t, set.Unavailable, got["erpc8"].Status)
	require.Contains(t, got["erpc8"].Reason, "no such NIC")
	require.Equal(t, set.Unavailable, got["stub8"].Status)
	require.Len(t, w.begun, 3+2+1+1)

	// The failed ones get another chance, and keep what they had.
	w = new(watcher)
	outcome, err = Run(t.Context(), p, Options{Dir: dir, Resume: true, Measure: good, Watcher: w})
	require.NoError(t, err)
	require.Equal(t, 4, outcome.Complete)
	require.Len(t, w.begun, 2+3+3)
}

func TestInterruptAndResume(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	count := 0
	stopping := func(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error) {
		if count++; count == 6 {
			cancel()
			return nil, ctx.Err()
		}
		return good(ctx, c, obs)
	}
	outcome, err := Run(ctx, plan(t, matrix), Options{Dir: dir, Measure: stopping, Watcher: new(watcher)})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, outcome.Complete)
	s, err := set.Load(dir)
	require.NoError(t, err)
	require.Len(t, s.Cells, 4)
	require.True(t, s.Cells[0].Incomplete)
	require.NotEmpty(t, s.Cells[0].Files)

	w := new(watcher)
	outcome, err = Run(t.Context(), plan(t, matrix), Options{Dir: dir, Resume: true, Measure: good, Watcher: w})
	require.NoError(t, err)
	require.Equal(t, 4, outcome.Complete)
	require.Len(t, w.begun, 12-5)
}

func TestTimeLimit(t *testing.T) {
	dir := t.TempDir()
	slow := func(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error) {
		time.Sleep(2 * time.Millisecond)
		return good(ctx, c, obs)
	}
	outcome, err := Run(t.Context(), plan(t, matrix), Options{Dir: dir, Measure: slow, Watcher: new(watcher), Limit: time.Millisecond})
	require.NoError(t, err)
	require.True(t, outcome.OutOfTime)
	require.Len(t, outcome.Set.Cells, 1)
}

func TestChangesAreNoticed(t *testing.T) {
	dir := t.TempDir()
	origin := Origin{Plugins: map[string]string{"shm": "aaa"}, Machine: map[string]string{"kernel": "6.1"}}
	begun := Options{Dir: dir, Measure: good, Watcher: new(watcher), Origin: origin}
	_, err := Run(t.Context(), plan(t, matrix), begun)
	require.NoError(t, err)
	begun.Resume = true
	for text, want := range map[string]string{
		strings.Replace(matrix, "8", "9", 1): "2 cells are new and 2 are gone",
		strings.Replace(matrix, "3", "4", 1): "it had 3 repeats and has 4",
		matrix + "order-seed: 2\n":           "its order or options",
	} {
		_, err = Run(t.Context(), plan(t, text), begun)
		var changed *ChangedError
		require.ErrorAs(t, err, &changed)
		require.ErrorContains(t, err, want)
	}
	begun.Origin = Origin{Plugins: map[string]string{"shm": "bbb"}, Machine: origin.Machine}
	_, err = Run(t.Context(), plan(t, matrix), begun)
	require.ErrorContains(t, err, "plugin of transport shm")
	begun.Origin = Origin{Plugins: origin.Plugins, Machine: map[string]string{"kernel": "6.2"}}
	_, err = Run(t.Context(), plan(t, matrix), begun)
	require.ErrorContains(t, err, `kernel was "6.1" and is "6.2"`)

	begun.Origin = origin
	require.NoError(t, os.WriteFile(filepath.Join(dir, planName), []byte("{\n\"kind\": 1"), 0o600))
	_, err = Run(t.Context(), plan(t, matrix), begun)
	require.ErrorContains(t, err, "line 2")
	begun.Dir = filepath.Join(dir, "none")
	_, err = Run(t.Context(), plan(t, matrix), begun)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTwoSweepsInOneDirectory(t *testing.T) {
	dir := t.TempDir()
	inside := func(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error) {
		_, err := Run(ctx, plan(t, matrix), Options{Dir: dir, Resume: true, Measure: good, Watcher: new(watcher)})
		require.ErrorContains(t, err, "another sweep is at work")
		return good(ctx, c, obs)
	}
	_, err := Run(t.Context(), plan(t, matrix), Options{Dir: dir, Measure: inside, Watcher: new(watcher)})
	require.NoError(t, err)
}

// A plugin that comes to another provider half way cannot be one cell.
func TestRepeatsThatDoNotFitTogether(t *testing.T) {
	count := 0
	measure := func(ctx context.Context, c config.Config, obs runner.Observer) (*result.Result, error) {
		r, err := good(ctx, c, obs)
		if count++; count == 3 {
			r.Plugin.Provider = "another"
		}
		return r, err
	}
	outcome, err := Run(t.Context(), plan(t, "repeats: 3\n"), Options{Dir: t.TempDir(), Measure: measure, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Equal(t, 1, outcome.Failed)
	require.Contains(t, outcome.Set.Cells[0].Reason, "not the same plugin")
}

// sweepUntilKilled is another process's sweep. It writes a line for every
// repeat once it has been stored, as the next one's begin shows.
func sweepUntilKilled(dir string) int {
	spec, err := Parse("s.yaml", []byte(killedMatrix))
	if err == nil {
		var p *Plan
		if p, err = Expand(spec, resolver{}); err == nil {
			_, err = Run(context.Background(), p, Options{
				Dir: dir, Resume: Exists(dir), Measure: good, Watcher: &teller{},
			})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("complete")
	return 0
}

const killedMatrix = "repeats: 6\naxes: {transport: [shm, erpc], in-flight: [1, 2, 3, 4, 5, 6, 7, 8]}\n"

type teller struct{ last string }

func (w *teller) Begin(s State) runner.Observer {
	if w.last != "" {
		fmt.Println(w.last)
	}
	w.last = fmt.Sprintf("%s/%d", s.Label, s.Repeat)
	return nil
}

func (*teller) Cell(State, *set.Cell) {}

// Whenever the process is killed, what was stored is there, whole, and is not
// measured again; and the sweep can always be gone on with.
func TestKilledAtAnyMoment(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	stored := map[string]bool{}
	kills := 0
	for kills < 50 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SWEEP_TEST_DIR="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		// Some die while they start, others in the midst of writing.
		delay := time.Duration(r.IntN(60)) * time.Millisecond
		timer := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
		complete := false
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if complete = lines.Text() == "complete"; !complete {
				require.False(t, stored[lines.Text()], "%s was measured again", lines.Text())
				stored[lines.Text()] = true
			}
		}
		timer.Stop()
		err = cmd.Wait()
		if complete {
			require.NoError(t, err)
			dir, stored = t.TempDir(), map[string]bool{} // there is more to kill
			continue
		}
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.False(t, exit.Exited(), "it failed by itself")
		kills++
		requireReadable(t, dir)
	}
	outcome, err := Run(t.Context(), plan(t, killedMatrix), Options{Dir: dir, Resume: Exists(dir), Measure: good, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Equal(t, 16, outcome.Complete)
}

// requireReadable reads every file that is not being written.
func requireReadable(t *testing.T, dir string) {
	t.Helper()
	if !Exists(dir) {
		return
	}
	for _, pattern := range []string{"cells/*.json", "repeats/*/*.json"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			_, err := result.Read(path)
			require.NoError(t, err)
		}
	}
}
