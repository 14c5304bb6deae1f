package set

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// run returns the shortest result that the schema allows.
func run(inFlight int, throughput ...float64) *result.Result {
	r := &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
		StartedAt: time.Date(2026, 3, 4, 5, 6, inFlight, 0, time.UTC),
		Config:    config.Default(),
		Plugin:    result.Plugin{Name: "shm", Provider: "memfd", RuntimeDigest: "d"},
		Environment: machine.Environment{
			Identity: machine.Identity{CPU: "some", RDMA: []machine.RDMADevice{{Name: "mlx5_0"}}},
		},
		Checks: []result.Finding{{Name: "fairness", Severity: result.Warning, Message: "so so"},
			{Name: "verified", OK: true, Severity: result.Error}},
	}
	r.Config.InFlight = inFlight
	r.Config.Options = map[string]string{"ring": "auto"}
	for i, v := range throughput {
		r.Repeats = append(r.Repeats, result.Repeat{Index: i,
			Samples: map[string]float64{result.Throughput: v}})
	}
	r.Summary = result.SummarizeRepeats(r.Repeats)
	r.Summary[result.HarnessOverhead] = result.Summarize(result.HarnessOverhead, []float64{30})
	return r
}

func write(t testing.TB, dir string, runs ...*result.Result) []string {
	t.Helper()
	var paths []string
	for _, r := range runs {
		path, err := result.Write(dir, r)
		require.NoError(t, err)
		paths = append(paths, path)
	}
	return paths
}

func TestCellOfAResult(t *testing.T) {
	s := New()
	require.NoError(t, s.Add(run(4, 10, 20)))
	c := s.Cells[0]
	require.Equal(t, "shm", c.Transport())
	require.Equal(t, "4", c.Config["in_flight"])
	require.Equal(t, "auto", c.Config["options.ring"])
	require.Equal(t, "1s", c.Config["duration"])
	require.Equal(t, map[string][]float64{result.Throughput: {10, 20},
		result.HarnessOverhead: {30}}, c.Samples)
	require.Equal(t, []result.Finding{{Name: "fairness", Severity: result.Warning,
		Message: "so so"}}, c.Warnings)
	require.Equal(t, "some", s.Machine(&c).Identity["cpu"])
	require.Contains(t, s.Machine(&c).Identity["rdma"], "mlx5_0")
	require.NotContains(t, s.Machine(&c).Volatile, "load_average")
}

// A window without a floor has no sample of it, and the others keep theirs.
func TestWindowWithoutFloor(t *testing.T) {
	r := run(1, 10, 20, 30)
	for i := range r.Repeats {
		r.Repeats[i].StartedAt = time.Unix(int64(i), 0)
		if i != 1 {
			r.Repeats[i].Samples[result.Floor], r.Repeats[i].Samples[result.FloorRatio] = 50,
				float64(i)
		}
	}
	s := New()
	require.NoError(t, s.Add(r))
	c := &s.Cells[0]
	require.Equal(t, []Window{c.Windows[0], c.Windows[2]}, c.WindowsOf(result.FloorRatio))
	require.Equal(t, c.Windows, c.WindowsOf(result.Throughput))
	require.Nil(t, c.WindowsOf(result.HarnessOverhead), "measured once")
	for i, want := range []bool{true, false, true} {
		ratio, has := c.Sample(result.FloorRatio, i)
		require.Equal(t, want, has)
		if want {
			require.InDelta(t, float64(i), ratio, 0)
		}
		throughput, has := c.Sample(result.Throughput, i)
		require.True(t, has)
		require.InDelta(t, float64(10+10*i), throughput, 0)
	}
}

// A launch of several windows has one sample of what its start took.
func TestSamplesOfLaunches(t *testing.T) {
	r := run(1, 10, 20, 30, 40)
	for i := range r.Repeats {
		if r.Repeats[i].Launch = i / 2; i%2 == 0 {
			r.Repeats[i].Samples[result.SetupOpen] = float64(i)
		}
	}
	s := New()
	require.NoError(t, s.Add(r))
	c := &s.Cells[0]
	require.Equal(t, []float64{0, 2}, c.Samples[result.SetupOpen])
	require.Equal(t, []Window{c.Windows[0], c.Windows[2]}, c.WindowsOf(result.SetupOpen))
	for i, want := range []float64{0, -1, 2, -1} {
		open, has := c.Sample(result.SetupOpen, i)
		require.Equal(t, want >= 0, has)
		require.InDelta(t, max(want, 0), open, 0)
	}
}

// What compares with a floor depends on the calls of all clients of a daemon.
func TestRatiosOfSeveralClients(t *testing.T) {
	for _, c := range []struct {
		clients, daemons, inFlight int
		ratio                      string
	}{
		{1, 1, 1, result.FloorRatio},
		{1, 1, 2, result.OpTimeRatio},
		{16, 1, 1, result.OpTimeRatio},
		{16, 16, 1, result.FloorRatio},
	} {
		r := run(c.inFlight, 10)
		r.Config.Ranks, r.Config.Clients, r.Config.Daemons = 2, c.clients, c.daemons
		for _, name := range []string{result.FloorRatio, result.LibraryRatio, result.OpTimeRatio} {
			r.Repeats[0].Samples[name] = 2
		}
		s := New()
		require.NoError(t, s.Add(r))
		for _, name := range []string{result.FloorRatio, result.OpTimeRatio} {
			_, has := s.Cells[0].Samples[name]
			require.Equal(t, name == c.ratio, has, "%v: %s", c, name)
		}
	}
}

// Options that do not change what is measured are not part of the key.
func TestKey(t *testing.T) {
	base, other := run(4, 1), run(4, 1)
	other.Config.Seed, other.Config.Repeats, other.Config.Profile, other.Config.Warmup,
		other.Config.SampleEvery = 9, 3, "pingpong", 7, 8
	s := New()
	require.NoError(t, s.Add(base))
	require.NoError(t, s.Add(other))
	require.Equal(t, s.Cells[0].Key(), s.Cells[1].Key())
	for _, change := range []func(*config.Config){
		func(c *config.Config) { c.Duration++ },
		func(c *config.Config) { c.ValueSize = config.FixedSize(33) },
		func(c *config.Config) { c.Options = map[string]string{"ring": "lamport"} },
	} {
		r := run(4, 1)
		change(&r.Config)
		one := New()
		require.NoError(t, one.Add(r))
		require.NotEqual(t, s.Cells[0].Key(), one.Cells[0].Key())
	}
	require.Len(t, ID(s.Cells[0].Key()), 16)
}

func TestLoadLooseDirectoryPoolsEqualCells(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, run(1, 1, 2), run(1, 3))
	write(t, filepath.Join(dir, "below"), run(8, 4))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("text"), 0o600))
	s, err := Load(dir)
	require.NoError(t, err)
	require.Len(t, s.Cells, 2)
	s.Sort()
	require.ElementsMatch(t, []float64{1, 2, 3}, s.Cells[0].Samples[result.Throughput])
	require.Len(t, s.Cells[0].Files, 2)
	require.True(t, strings.HasPrefix(s.Cells[1].Files[0].Name, "below/"), s.Cells[1].Files[0].Name)
	require.Len(t, s.Environments, 1)

	_, err = Load(t.TempDir())
	require.ErrorContains(t, err, "has no result files")
	_, err = Load("/nonexistent")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.EqualError(t, err, "/nonexistent: no such file or directory; name a directory of "+
		"results, its index, or a result file")
}

// A calibration beside results is no part of the set, also in a directory with an index and for a
// loader that has read it before.
func TestCalibrationIsNoResult(t *testing.T) {
	calibration := []byte(`{"schema_version": "2.0.0", "kind": "calibration", "experiments": []}`)
	dir := t.TempDir()
	path := filepath.Join(dir, "calibration.json")
	require.NoError(t, os.WriteFile(path, calibration, 0o600))
	_, err := Load(dir)
	require.ErrorContains(t, err,
		dir+" has no result files: "+path+" is a calibration of a machine, which has no results; "+
			"transportbench calibrate show "+path)
	var l Loader
	for range 2 {
		_, err = l.Load(path)
		require.EqualError(t, err, path+
			" is a calibration of a machine, which has no results; transportbench calibrate show "+
			path+" shows it")
	}

	below := filepath.Join(dir, "below")
	write(t, below, run(1, 1, 2), run(2, 3))
	require.NoError(t, os.WriteFile(filepath.Join(below, "other-name.json"), calibration, 0o600))
	for range 2 {
		s, err := l.Load(dir)
		require.NoError(t, err)
		require.Len(t, s.Cells, 2)
		require.Len(t, l.known, 4)
	}
	s, err := Load(below)
	require.NoError(t, err)
	require.NoError(t, s.WriteIndex(below))
	s, err = Load(dir)
	require.NoError(t, err)
	require.Len(t, s.Cells, 2)
	require.Empty(t, s.Skipped)
}

// A comparison with a document beside results is skipped, and the set says so.
func TestReproductionIsNoResult(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, run(1, 1, 2))
	path := filepath.Join(dir, "benchkv.json")
	require.NoError(t, os.WriteFile(path,
		[]byte(`{"kind": "reproduction", "document": "benchkv"}`), 0o600))
	s, err := Load(dir)
	require.NoError(t, err)
	require.Len(t, s.Cells, 1)
	require.Equal(t, []string{path + " is a comparison with a document, which has no results; " +
		"name the directory that reproduce wrote its runs to"}, s.Skipped)
}

func TestIndexIsRead(t *testing.T) {
	dir := t.TempDir()
	paths := write(t, dir, run(1, 1, 2), run(2, 3, 4))
	s, err := Load(dir)
	require.NoError(t, err)
	require.NoError(t, s.WriteIndex(dir))
	require.NoError(t, s.WriteIndex(dir), "an index may be replaced")

	again, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, dir, again.Source)
	require.Equal(t, s.Cells, again.Cells)
	whole, err := Load(filepath.Dir(dir)) // through the index below it
	require.NoError(t, err)
	require.Len(t, whole.Cells, 2)

	// An edited result is named.
	text, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	edited := strings.Replace(string(text), `"throughput": 2`, `"throughput": 2000`, 1)
	require.NotEqual(t, string(text), edited)
	require.NoError(t, os.WriteFile(paths[0], []byte(edited), 0o600))
	_, err = Load(dir)
	require.ErrorContains(t, err, paths[0]+" has another length now; without the index")
	require.NoError(t, os.WriteFile(paths[0], text, 0o600))

	require.NoError(t, os.Remove(paths[1]))
	_, err = Load(dir)
	require.ErrorContains(t, err, filepath.Base(paths[1]))
	require.ErrorContains(t, err, "cells[1]")
}

func TestOmittedOptions(t *testing.T) {
	for _, option := range []string{"service", "rate", "mix", "pattern", "burn"} {
		require.True(t, Omitted(option), option)
	}
	for _, option := range []string{"in_flight", "remote_share", "options.ring", "invented"} {
		require.False(t, Omitted(option), option)
	}
}

func TestHostileFilesAreNamedWithThePlace(t *testing.T) {
	var good bytes.Buffer
	s := New()
	require.NoError(t, s.Add(run(1, 1, 2)))
	require.NoError(t, s.Encode(&good))
	text := good.String()
	edit := func(from, to string) string {
		require.Contains(t, text, from)
		return strings.Replace(text, from, to, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"truncated":   {text[:len(text)/2], "unexpected end"},
		"NaN":         {edit(`"throughput":[1,`, `"throughput":[NaN,`), "line 7 column"},
		"huge number": {edit(`"throughput":[1,`, `"throughput":[1e400,`), "1e400"},
		"text":        {edit(`"throughput":[1,`, `"throughput":["1",`), "line 7 column"},
		"duplicate":   {edit(`"kind"`, `"kind": "run", "kind"`), "occurs twice"},
		"nested":      {strings.Repeat("[", 100_000), "nested more than"},
		"future":      {edit(`"3.0.0"`, `"4.0.0"`), "newer version"},
		"no samples": {edit(`"throughput":[1,2]`, `"throughput":[]`),
			`cells[0]: metric "throughput" has no samples`},
		"launch": {edit(`"launch":0`, `"launch":-1`),
			"cells[0]: windows[0] has a negative distance, launch or share"},
		"bounce": {edit(`"launch":0`, `"launch":0,"bounce_after_ns":-3`),
			"cells[0]: windows[0] has a negative distance, launch or share"},
		"no transport": {edit(`"transport":"shm"`, `"nope":"shm"`),
			"cells[0]: config has no transport"},
		"status": {edit(`"status":"measured"`, `"status":"good"`),
			`cells[0]: status "good"`},
		"environment": {edit(`"environment":0`, `"environment":7`), "cells[0]: environment 7"},
		"files": {edit(`"samples"`,
			`"files":[{"name":"../../etc/passwd","bytes":1}],"samples"`),
			"outside the directory of the set"},
		"other kind":     {`{"schema_version": "1.0.0", "kind": "walk"}`, `kind "walk"`},
		"no kind":        {`{}`, "not a result"},
		"empty":          {"", "unexpected end of JSON input"},
		"behind the end": {text + "{}", "after top-level value"},
	} {
		path := filepath.Join(t.TempDir(), "index.json")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		for _, target := range []string{path, filepath.Dir(path)} {
			_, err := Load(target)
			require.ErrorContains(t, err, c.want, name)
			require.ErrorContains(t, err, path, name)
			require.NotContains(t, err.Error(), "\n", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	var good bytes.Buffer
	s := New()
	require.NoError(f, s.Add(run(1, 1, 2)))
	require.NoError(f, s.Encode(&good))
	f.Add(good.Bytes())
	f.Add(
		[]byte(
			`{"schema_version":"1.0.0","kind":"published","source":"s","rows":[{"config":{"transport":"x"},"metrics":{"throughput":{"value":1,"unit":"op/s"}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data, "f")
		if err != nil {
			return
		}
		// An accepted set can be labelled, merged and written again.
		Varying(s.Cells)
		s.Sort()
		whole := New()
		whole.Include(s)
		var text bytes.Buffer
		require.NoError(t, whole.Encode(&text))
		_, err = Parse(text.Bytes(), "f")
		require.NoError(t, err)
	})
}

func TestEncodedSetIsValidJSONOfOneCellALine(t *testing.T) {
	s := New()
	for i := range 3 {
		require.NoError(t, s.Add(run(i+1, 1)))
	}
	var text bytes.Buffer
	require.NoError(t, s.Encode(&text))
	require.True(t, json.Valid(text.Bytes()))
	require.Equal(t, 3, strings.Count(text.String(), "\n{\"run\""))
}

// TestTracks checks that the track alone names cells that differ in the options that it sets.
func TestTracks(t *testing.T) {
	cell := func(transport, track, every, checksum string) Cell {
		c := Cell{Config: map[string]string{"transport": transport, "profile": "kv",
			"duration": "1s", "verify_every": every}}
		if track != "" {
			c.Config["track"] = track
		}
		if checksum != "" {
			c.Config["options.checksum"] = checksum
			c.Plugin = Plugin{Name: transport, Matched: map[string]string{"checksum": "header"}}
		}
		return c
	}
	cells := []Cell{cell("shm", "", "1", ""), cell("erpc", "", "1", "all"),
		cell("erpc", "matched", "1", "header")}
	require.Equal(t, []string{"track"}, Varying(cells))
	require.Equal(t, []string{"both", "shipped", "matched"},
		[]string{cells[0].Track(), cells[1].Track(), cells[2].Track()})
	require.Equal(t, "shipped", new(cell("shm", "", "16", "")).Track(), "verified by sampling")
	require.Equal(t, "both", new(cell("erpc", "", "1", "header")).Track())

	// A cell that was not measured does not know what the track sets.
	failed := cell("erpc", "matched", "1", "header")
	failed.Plugin = Plugin{}
	require.Equal(t, []string{"track"}, Varying(append(cells, failed)))
	require.Equal(t, []string{"track", "options.checksum"},
		Varying([]Cell{failed, {Config: cells[1].Config}}))

	// The user's own choices stay in the label.
	require.Equal(t, []string{"track", "options.checksum"},
		Varying(append(cells, cell("erpc", "", "1", "header"))))
	require.Equal(t, []string{"track", "verify_every"},
		Varying(append(cells, cell("shm", "", "4", ""))))
	require.Equal(t, []string{"options.checksum"},
		Varying(cells[1:2], []Cell{cell("erpc", "", "1", "header")}))
}

// TestNetworks checks that the network alone names cells whose own options follow from it.
func TestNetworks(t *testing.T) {
	cell := func(transport, network, address string) Cell {
		return Cell{Config: map[string]string{"transport": transport, "profile": "kv",
			"duration": "1s", "network": network, "options.address": address}}
	}
	cells := []Cell{cell("tcpx", "none", "127.0.0.1"), cell("tcpx", "loss=1%", "10.79.0.0/24"),
		cell("erpc", "loss=1%", "10.79.0.0/24")}
	require.Equal(t, []string{"network"}, Varying(cells))
	require.Equal(t, "network=loss=1%", LabelsOf(cells).Load(cells[1].Config))
	require.Equal(t, []string{"network", "options.address"},
		Varying(append(cells, cell("tcpx", "none", "127.0.0.2"))), "the user's own choice stays")
}

func TestLabels(t *testing.T) {
	s := New()
	for _, size := range []config.Size{32, 4096} {
		r := run(1, 1)
		r.Config.ValueSize = config.FixedSize(size)
		require.NoError(t, s.Add(r))
	}
	varying := Varying(s.Cells)
	require.Equal(t, []string{"value_size"}, varying)
	require.Equal(t, "shm value_size=4KiB", LabelsOf(s.Cells).Of(s.Cells[1].Config))
	for pattern, want := range map[string]bool{
		"": true, "shm": true, "*": true, "ucx*": false, "value-size=4KiB": true,
		"value_size=4096": true,
		"shm,ring=a*":     true, "shm,ring=b": false, "colour=red": false,
	} {
		require.Equal(t, want, Match(pattern, s.Cells[1].Config), pattern)
	}
	dashed := map[string]string{"options.queue-pairs": "rc"}
	for _, name := range []string{"queue-pairs", "queue_pairs", "options.queue-pairs"} {
		require.True(t, Match(name+"=rc", dashed), name)
		require.False(t, Match(name+"=dc", dashed), name)
	}
	require.Negative(t, compareConfigs(map[string]string{"transport": "a", "n": "9"},
		map[string]string{"transport": "a", "n": "10"}))
	require.Equal(t, -1, CompareValues("9", "10"))
	require.Equal(t, 1, CompareValues("b", "a"))
}

// A label has what tells cells apart within a profile, and no option at its default unless that
// shapes the load.
func TestLabelsOfWhatDiffers(t *testing.T) {
	s := New()
	add := func(transport, profile string, edit func(*config.Config)) {
		r := run(1, 1)
		r.Config.Transport, r.Config.Profile, r.Config.Options = transport, profile, nil
		edit(&r.Config)
		require.NoError(t, s.Add(r))
	}
	add("shm", "kv", func(c *config.Config) { c.Rate = 20e3 })
	add("shm", "kv", func(c *config.Config) { c.Rate, c.Idle = 20e3, config.IdlePark })
	add("shm", "kv", func(c *config.Config) {
		c.Rate, c.Options = 20e3,
			map[string]string{"ring": "auto"}
	})
	add("shm", "kv", func(c *config.Config) {
		c.Rate, c.Options = 20e3,
			map[string]string{"ring": "lamport"}
	})
	add("tcpx", "kv", func(c *config.Config) {
		c.Rate, c.Options = 5e3,
			map[string]string{"ring": "4"}
	})
	add("shm", "echo", func(c *config.Config) { c.InFlight, c.ValueSize = 1, config.FixedSize(64) })
	add("shm", "echo", func(c *config.Config) {
		c.InFlight, c.ValueSize = 32,
			config.FixedSize(64)
	})
	add("shm", "bulk", func(c *config.Config) { c.ValueSize = config.FixedSize(512 << 10) })
	s.Cells = append(s.Cells, Cell{Config: map[string]string{"transport": "other"},
		Status: Published})
	labels := LabelsOf(s.Cells)
	var names []string
	for i := range s.Cells {
		names = append(names, labels.Of(s.Cells[i].Config))
	}
	require.Equal(t, []string{
		"shm kv rate=20k", "shm kv rate=20k idle=park", "shm kv rate=20k ring=auto",
		"shm kv rate=20k ring=lamport",
		"tcpx kv rate=5k", "shm echo in_flight=1", "shm echo in_flight=32", "shm bulk", "other",
	}, names)
	require.Equal(t, "kv idle=park", labels.Without("rate").Load(s.Cells[1].Config))
	require.Equal(t, "kv rate=20k idle=park", labels.Load(s.Cells[1].Config),
		"Without makes a copy")
}

func TestReplaceLeavesTheOldOnFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	s := New()
	s.Cells = []Cell{{Samples: map[string][]float64{"x": {inf()}}}}
	require.Error(t, files.Replace(path, s.Encode))
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(kept))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func inf() float64 {
	var zero float64
	return 1 / zero
}

func BenchmarkFlatten(b *testing.B) {
	r := run(1, 1)
	for b.Loop() {
		if _, err := Flatten(r.Config); err != nil {
			b.Fatal(err)
		}
	}
}

// withStall returns an open-loop run of one window, in which a share of the response times is 10 ms
// and the others are 1 us.
func withStall(t *testing.T, share float64) *result.Result {
	t.Helper()
	h := record.NewHistogram()
	for i := range 10_000 {
		if float64(i) < share*10_000 {
			h.Record(10_000_000)
		} else {
			h.Record(1000)
		}
	}
	r := run(8, 1e6)
	r.Config.Rate = 1e6
	r.Repeats[0].Response = h.Encode()
	r.Repeats[0].Samples[result.ResponseP99] = h.Quantile(0.99)
	return r
}

// The percentiles of a cell are of all its windows together, from whichever results they are.
func TestPooledPercentilesOfMergedResults(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, withStall(t, 0.05), withStall(t, 0), withStall(t, 0))
	s, err := Load(dir)
	require.NoError(t, err)
	require.Len(t, s.Cells, 1)
	m, ok := s.Cells[0].Metric(result.ResponseP99)
	require.True(t, ok)
	require.InEpsilon(t, 10e6, m.Median, 0.01, "the median over the windows is 1 us")
	require.Equal(t, 3, m.N)
	m, ok = s.Cells[0].Metric(result.Throughput)
	require.True(t, ok)
	require.InDelta(t, 1e6, m.Median, 0)
	require.EqualValues(t, 30_000, s.Cells[0].Pooled[result.ResponseP99].Samples)

	require.NoError(t, s.WriteIndex(dir))
	again, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, s.Cells[0].Pooled, again.Cells[0].Pooled)

	// The response times of a measurement of the capacity only show how long the window was.
	capacity := withStall(t, 0)
	capacity.Config.Rate = config.RateMax
	require.NoError(t, s.Add(capacity))
	require.False(t, s.Cells[1].OpenLoop())
	_, ok = s.Cells[1].Metric(result.ResponseP99)
	require.False(t, ok)
	require.Equal(t, "shm rate=max", LabelsOf(s.Cells).Of(s.Cells[1].Config))

	// An index has no histograms, so its cell cannot be merged with another.
	cell := again.Cells[0]
	cell.Samples = map[string][]float64{result.ResponseP99: {1000, 1000, 10e6}}
	cell.Merge(s.Cells[0])
	require.Empty(t, cell.Pooled)
	m, ok = cell.Metric(result.ResponseP99)
	require.True(t, ok)
	require.Equal(t, 6, m.N)
}

func TestShortNames(t *testing.T) {
	for _, c := range []struct{ paths, want []string }{
		{nil, []string{}},
		{[]string{"results/local/latency/"}, []string{"latency"}},
		{[]string{"a/v1/box/", "a/v2/box"}, []string{"v1", "v2"}},
		{[]string{"x/a/box/", "b/box", "b/other"}, []string{"x/a/box", "b/box", "b/other"}},
		{[]string{"a/box", "a/box/old"}, []string{"box", "box/old"}},
		{[]string{"box", "box"}, []string{"1: box", "2: box"}},
	} {
		require.Equal(t, c.want, ShortNames(c.paths))
	}
}
