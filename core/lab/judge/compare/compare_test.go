package compare

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// machine is the environment of the sets in these tests.
func machine() set.Environment {
	return set.Environment{
		Identity: map[string]string{"cpu": "some", "kernel": "6.1"},
		Volatile: map[string]string{"governor": "performance"},
	}
}

// cell returns a cell of shm with samples of throughput.
func cell(config map[string]string, throughput ...float64) set.Cell {
	c := set.Cell{
		Config: map[string]string{"transport": "shm", "in_flight": "1", "options.ring": "auto",
			"seed": "1"},
		Status: set.Measured, Plugin: set.Plugin{Name: "shm", Provider: "memfd",
			RuntimeDigest: "d"},
		Samples: map[string][]float64{result.Throughput: throughput},
	}
	maps.Copy(c.Config, config)
	return c
}

func newSet(cells ...set.Cell) *set.Set {
	s := set.New()
	s.Environments = []set.Environment{machine()}
	s.Cells = cells
	return s
}

// noisy returns n samples around a centre with a relative spread.
func noisy(r *rand.Rand, n int, centre, spread float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = centre * math.Exp(spread*r.NormFloat64())
	}
	return values
}

// uncontrolled is the note on a single change without a control.
const uncontrolled = "no control for 1 change, because of fewer than 4 other transports under " +
	"the same load, and no reference"

func one(t *testing.T, old, new *set.Set, o Options) Change {
	t.Helper()
	report, err := Diff(old, new, o)
	require.NoError(t, err)
	require.Len(t, report.Changes, 1)
	return report.Changes[0]
}

func TestVerdicts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	base := func() *set.Set { return newSet(cell(nil, noisy(r, 10, 1e6, 0.005)...)) }
	with := func(samples ...float64) *set.Set { return newSet(cell(nil, samples...)) }

	c := one(t, base(), with(noisy(r, 10, 0.95e6, 0.005)...), Defaults())
	require.Equal(t, Worse, c.Verdict)
	require.InDelta(t, -0.05, *c.Change, 0.01)
	require.Less(t, *c.PHolm, 0.001)
	require.Less(t, *c.Low, *c.Change)
	require.Greater(t, *c.High, *c.Change)

	require.Equal(t, Better, one(t, base(), with(noisy(r, 10, 1.06e6, 0.005)...),
		Defaults()).Verdict)
	require.Equal(t, Same, one(t, base(), with(noisy(r, 10, 1e6, 0.005)...), Defaults()).Verdict)
	require.Equal(t, Same, one(t, base(), with(noisy(r, 10, 0.992e6, 0.003)...),
		Defaults()).Verdict, "significant but below the floor")
	c = one(t, base(), with(noisy(r, 10, 1.01e6, 0.08)...), Defaults())
	require.Equal(t, Ambiguous, c.Verdict)
	require.False(t, c.TooLittle)

	c = one(t, base(), with(0.5e6, 0.5e6), Defaults())
	require.Equal(t, Worse, c.Verdict, "2 against 10 can be significant")
	c = one(t, newSet(cell(nil, 1e6, 1e6, 1e6)), with(0.5e6, 0.5e6, 0.5e6), Defaults())
	require.Equal(t, Ambiguous, c.Verdict)
	require.True(t, c.TooLittle)
	require.Nil(t, c.Low)

	c = one(t, base(), with(0, 1, 2), Defaults())
	require.Equal(t, Incomparable, c.Verdict)
}

// A latency that grows is worse.
func TestDirection(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	latency := func(centre float64) *set.Set {
		c := cell(nil)
		c.Samples = map[string][]float64{result.LatencyP50: noisy(r, 10, centre, 0.005),
			result.Floor: noisy(r, 10, 100, 0.01)}
		return newSet(c)
	}
	require.Equal(t, Worse, one(t, latency(1000), latency(1100), Defaults()).Verdict)
	require.Equal(t, Better, one(t, latency(1000), latency(900), Defaults()).Verdict)

	o := Defaults()
	o.Metrics = []string{result.Floor}
	c := one(t, latency(1), latency(1), o)
	require.Nil(t, c.PHolm, "metrics without a direction are not tested")
}

// At the level of 6000 tests, 10 repeats cannot be significant, and the report says how many are
// needed.
func TestTooManyTestsForTheRepeats(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	old, new := newSet(), newSet()
	o := Defaults()
	o.Alpha /= 10 // with a tenth of the tests
	for i := range 600 {
		config := map[string]string{"in_flight": fmt.Sprint(i + 1)}
		old.Cells = append(old.Cells, cell(config, noisy(r, 10, 1e6, 0.005)...))
		centre := 1e6
		if i == 7 {
			centre = 0.8e6
		}
		new.Cells = append(new.Cells, cell(config, noisy(r, 10, centre, 0.005)...))
	}
	report, err := Diff(old, new, o)
	require.NoError(t, err)
	require.Equal(t, 600, report.Tests)
	require.Zero(t, report.Count(Worse))
	require.NotZero(t, report.TooLittle())
	require.Equal(t, 11, report.Needed())
	require.True(t, report.Changes[0].TooLittle, "the largest change comes first")
}

// Sets that do not differ: of 200 comparisons under several kinds of noise, no more than alpha have
// a BETTER or WORSE cell. One kind is a machine that drifts and jumps, with interleaved repeats.
func TestSameAgainstSame(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	noises := map[string]func(round int) float64{
		"normal": func(int) float64 { return 1 + 0.03*r.NormFloat64() },
		"heavy-tailed": func(int) float64 {
			return 1 +
				0.02*math.Abs(r.NormFloat64()/max(0.1, math.Abs(r.NormFloat64())))
		},
		"two modes": func(int) float64 {
			return 1 + 0.1*float64(r.IntN(2)) +
				0.005*r.NormFloat64()
		},
		"drifting": func(round int) float64 {
			return 1 + 0.02*float64(round) +
				0.01*r.NormFloat64()
		},
	}
	o := Defaults()
	o.Floor = 0 // the default would hide most of them
	const trials = 200
	wrong := 0
	for _, name := range slices.Sorted(maps.Keys(noises)) {
		noise := noises[name]
		for range trials / len(noises) {
			old, new := newSet(), newSet()
			for i := range 3 {
				config := map[string]string{"in_flight": fmt.Sprint(i + 1)}
				var a, b []float64
				for round := range 10 {
					a, b = append(a, 1e6*noise(round)), append(b, 1e6*noise(round))
				}
				old.Cells, new.Cells = append(old.Cells, cell(config, a...)),
					append(new.Cells, cell(config, b...))
			}
			report, err := Diff(old, new, o)
			require.NoError(t, err)
			if report.Count(Better)+report.Count(Worse) > 0 {
				wrong++
			}
		}
	}
	require.LessOrEqual(t, wrong, trials*5/100)
}

// With 10 repeats, a change of 5% under 2% of noise is found nearly always.
func TestPower(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	o := Defaults()
	o.Floor = 0
	found := 0
	const trials = 50
	for range trials {
		c := one(t, newSet(cell(nil, noisy(r, 10, 1e6, 0.02)...)),
			newSet(cell(nil, noisy(r, 10, 0.95e6, 0.02)...)), o)
		if c.Verdict == Worse {
			found++
		}
	}
	require.GreaterOrEqual(t, found, trials*95/100)
}

func TestIdentity(t *testing.T) {
	old, new := newSet(cell(nil, 1, 2, 3)), newSet(cell(nil, 1, 2, 3))
	new.Environments[0].Identity["kernel"] = "6.2"
	new.Cells[0].Plugin.Provider = "named"
	_, err := Diff(old, new, Defaults())
	var identity *IdentityError
	require.ErrorAs(t, err, &identity)
	require.EqualError(t, err, "the results differ in provider (memfd and named); to compare "+
		"them anyway, use --across provider")

	// Another kernel is named and refuses nothing.
	o := Defaults()
	for _, across := range [][]string{{"kernel", "provider"}, {"provider"}, {"all"}} {
		o.Across = across
		report, err := Diff(old, new, o)
		require.NoError(t, err)
		require.Len(t, report.Across, 2)
	}
	new = newSet(cell(nil, 1, 2, 3))
	new.Environments[0].Volatile["governor"] = "powersave"
	report, err := Diff(old, new, Defaults())
	require.NoError(t, err)
	require.Equal(t, []string{"governor was performance and is powersave", uncontrolled},
		report.Notes)

	// What auto took may explain a change. A side that does not know gives no note.
	new = newSet(cell(nil, 1, 2, 3))
	new.Cells[0].Plugin.Chosen = map[string]string{"ring": "fastforward", "offload": "gro"}
	report, err = Diff(old, new, Defaults())
	require.NoError(t, err)
	require.Equal(t, []string{uncontrolled}, report.Notes)
	old.Cells[0].Plugin.Chosen = map[string]string{"ring": "inplace", "offload": "gro"}
	report, err = Diff(old, new, Defaults())
	require.NoError(t, err)
	require.Equal(t, []string{new.Cells[0].Transport() +
		" took inplace for ring and now takes fastforward", uncontrolled}, report.Notes)

	old, new = newSet(cell(nil, 1, 2, 3)), newSet(cell(nil, 1, 2, 3))
	new.Cells[0].Plugin.Path = []string{"tcp over bond0, mtu 1500"}
	report, err = Diff(old, new, Defaults())
	require.NoError(t, err)
	require.Equal(t, []string{uncontrolled}, report.Notes)
	old.Cells[0].Plugin.Path = []string{"verbs over mlx5_0/1"}
	report, err = Diff(old, new, Defaults())
	require.NoError(t, err)
	require.Equal(t, []string{"the bytes of " + new.Cells[0].Transport() +
		" took another path: verbs over mlx5_0/1, and now tcp over bond0, mtu 1500",
		uncontrolled}, report.Notes)
}

func TestMatching(t *testing.T) {
	values := []float64{1, 2, 3}
	old := newSet(
		cell(map[string]string{"in_flight": "1"}, values...),
		cell(map[string]string{"in_flight": "2", "repeats": "3", "seed": "8"}, values...),
		cell(map[string]string{"in_flight": "3"}, values...),
		cell(map[string]string{"transport": "gone"}, values...),
	)
	new := newSet(
		cell(map[string]string{"in_flight": "2", "options.added": "x", "invented": "1"}, values...),
		cell(map[string]string{"in_flight": "1", "options.added": "x", "invented": "1"}, values...),
		cell(map[string]string{"in_flight": "4", "options.added": "x", "invented": "1"}, values...),
	)
	report, err := Diff(old, new, Defaults())
	require.NoError(t, err)
	require.Len(t, report.Changes, 2)
	require.Len(t, report.OnlyOld, 2)
	require.Len(t, report.OnlyNew, 1)
	require.Contains(t, report.Notes,
		"cells were matched without the options that only one side has: invented, options.added")
	require.Equal(t, "gone in_flight=1", report.OnlyOld[0].Cell)

	// An option that is absent where it has its default is known to both sides.
	report, err = Diff(newSet(cell(nil, values...)),
		newSet(cell(map[string]string{"service": "echo"}, values...), cell(nil, values...),
			cell(map[string]string{"rate": "1000"}, values...)), Defaults())
	require.NoError(t, err)
	require.Len(t, report.Changes, 1)
	require.Len(t, report.OnlyNew, 2)
	require.Equal(t, []string{uncontrolled}, report.Notes)
	_, err = Diff(newSet(cell(nil, values...)),
		newSet(cell(map[string]string{"service": "echo"}, values...)), Defaults())
	require.ErrorContains(t, err, "they differ in service")

	// An option that tells cells apart cannot be left out.
	split := newSet(
		cell(map[string]string{"options.added": "x"}, values...),
		cell(map[string]string{"options.added": "y"}, values...),
		cell(map[string]string{"in_flight": "2", "options.added": "y"}, values...),
	)
	report, err = Diff(old, split, Defaults())
	require.NoError(t, err)
	require.Len(t, report.Changes, 1)
	require.Len(t, report.OnlyNew, 2)

	_, err = Diff(newSet(cell(map[string]string{"keys": "1"}, 1)),
		newSet(cell(map[string]string{"keys": "2"}, 1)), Defaults())
	var unmatched *UnmatchedError
	require.ErrorAs(t, err, &unmatched)
	require.ErrorContains(t, err, "they differ in keys; use --ignore to leave options out")
	o := Defaults()
	o.Ignore = []string{"keys"}
	_, err = Diff(newSet(cell(map[string]string{"keys": "1"}, 1)),
		newSet(cell(map[string]string{"keys": "2"}, 1)), o)
	require.NoError(t, err)

	// Cells are matched by the length of their windows first, and without it if they have no
	// counterpart.
	long, short := cell(map[string]string{"duration": "1s"}, 1),
		cell(map[string]string{"duration": "100ms"}, 2)
	report, err = Diff(newSet(long, short), newSet(short, long), Defaults())
	require.NoError(t, err)
	require.Len(t, report.Changes, 2)
	require.Zero(t, *report.Changes[0].Change)
	require.NotContains(t, strings.Join(report.Notes, "\n"), "windows of different lengths")
	report, err = Diff(newSet(long), newSet(short), Defaults())
	require.NoError(t, err)
	require.InDelta(t, 1, *report.Changes[0].Change, 1e-9)
	require.Contains(t, report.Notes, "cells with windows of different lengths were matched")
}

func TestUnusableCells(t *testing.T) {
	good, failed, doubted := cell(nil, 1, 2, 3), cell(nil), cell(nil, 1, 2, 3)
	failed.Status, failed.Reason = set.Failed, "rank 1: run: it crashed"
	doubted.Warnings = []result.Finding{{Name: "verified", Severity: result.Error,
		Message: "3 calls lost"}}
	for _, c := range []struct {
		old, new set.Cell
		note     string
	}{
		{good, failed, "new: failed: rank 1: run: it crashed"},
		{failed, good, "old: failed: rank 1: run: it crashed"},
		{good, doubted, "new: check verified failed: 3 calls lost"},
	} {
		change := one(t, newSet(c.old), newSet(c.new), Defaults())
		require.Equal(t, Incomparable, change.Verdict)
		require.Equal(t, c.note, change.Note)
	}
	report, err := Diff(newSet(failed), newSet(failed), Defaults())
	require.NoError(t, err)
	require.Empty(t, report.Changes, "neither side ran")

	moved := func(floor float64) *set.Set {
		c := cell(nil, 1, 2, 3, 4, 5, 6)
		c.Samples[result.Floor] = []float64{floor, floor * 1.01, floor * 1.02, floor * 1.03,
			floor * 1.04, floor * 1.05}
		return newSet(c)
	}
	require.Contains(t, one(t, moved(100), moved(130), Defaults()).Note, "the floor moved by +30%")
}

func TestPublishedFiguresHaveNoVerdict(t *testing.T) {
	figure := set.Cell{
		Config: map[string]string{"transport": "shm"}, Status: set.Published, Reason: "a paper",
		Environment: -1,
		Samples:     map[string][]float64{result.Throughput: {5e5}},
	}
	old, new := newSet(figure), newSet(cell(nil, 1e6, 1e6),
		cell(map[string]string{"in_flight": "8"}, 2e6))
	_, err := Diff(old, new, Defaults())
	require.ErrorContains(t, err, "--across source")
	o := Defaults()
	o.Across = []string{"source"}
	report, err := Diff(old, new, o)
	require.NoError(t, err)
	require.Len(t, report.Changes, 2)
	for _, c := range report.Changes {
		require.Equal(t, Incomparable, c.Verdict)
		require.NotNil(t, c.Change)
		require.Nil(t, c.P)
		require.Contains(t, c.Note, "a published figure, not measured here: a paper")
	}
}

func TestMeansAreGeometric(t *testing.T) {
	old := newSet(cell(nil, 1, 1, 1), cell(map[string]string{"in_flight": "2"}, 1, 1, 1))
	new := newSet(cell(nil, 2, 2, 2), cell(map[string]string{"in_flight": "2"}, 0.5, 0.5, 0.5))
	report, err := Diff(old, new, Defaults())
	require.NoError(t, err)
	require.Len(t, report.Means, 1)
	require.InDelta(t, 0, report.Means[0].Change, 1e-12)
	require.Equal(t, 2, report.Means[0].Cells)
}

// Files of every released schema version can be compared with those of today.
func TestReleasedSchemaVersions(t *testing.T) {
	dirs, err := filepath.Glob("testdata/released/*")
	require.NoError(t, err)
	versions := map[string]bool{}
	for _, dir := range dirs {
		versions[filepath.Base(dir)] = true
		old, err := set.Load(dir)
		require.NoError(t, err)
		require.Equal(t, filepath.Base(dir), old.Cells[0].Schema,
			"the version wrote the file itself")
		require.Equal(t, strings.HasPrefix(filepath.Base(dir), "2."),
			len(old.Cells[0].Samples[result.LatencyMean]) > 0)
		report, err := Diff(old, old, Defaults())
		require.NoError(t, err)
		require.NotEmpty(t, report.Changes)
		for _, c := range report.Changes {
			require.InDelta(t, 0, *c.Change, 1e-9, c.Metric)
			require.NotEqual(t, Incomparable, c.Verdict)
		}
	}
	require.True(t, versions["1.0.0"])
	require.True(t, versions[result.SchemaVersion],
		"add a result of schema %s to testdata/released", result.SchemaVersion)
}

// Each side has its version, its date and its repeats, and one plugin is named.
func TestSides(t *testing.T) {
	side := func(version string, plugins ...string) *set.Set {
		s := newSet()
		for i, sum := range plugins {
			c := cell(map[string]string{"in_flight": fmt.Sprint(i + 1)}, 1, 2, 3, 4)
			c.Tool = &result.Tool{Version: version, Revision: "0123456789abcdef"}
			c.Plugin.Version, c.Plugin.SHA256 = "0.1.0", sum
			c.Plugin.Revision = "fedcba9876543210"
			c.StartedAt = time.Date(2026, 11, 20+i, 12, 0, 0, 0, time.UTC)
			s.Cells = append(s.Cells, c)
		}
		return s
	}
	report, err := Diff(side("0.5.0", "sum"), side("0.6.0", "sum", "other"), Defaults())
	require.NoError(t, err)
	require.Equal(t, "measured by transportbench 0.5.0 (revision 0123456789ab), plugin shm 0.1.0 "+
		"(revision fedcba987654) with SHA-256 sum, 2026-11-20, 4 repeats", report.OldSide.String())
	report, err = Diff(side("0.5.0", "sum", "other"), side("0.6.0", "sum", "other"), Defaults())
	require.NoError(t, err)
	require.Equal(t, "measured by transportbench 0.6.0 (revision 0123456789ab), "+
		"2026-11-20 to 2026-11-21, 4 repeats of each of 2 cells", report.NewSide.String())
	report, err = Diff(newSet(cell(nil, 1)), newSet(cell(nil, 1, 2)), Defaults())
	require.NoError(t, err)
	require.Equal(t, "measured by an unknown version, 2 repeats", report.NewSide.String())
}

// Another version of a plugin is no other configuration: its cells are compared.
func TestPluginVersions(t *testing.T) {
	of := func(version string) *set.Set {
		c := cell(nil, 1, 2, 3, 4)
		c.Plugin.Version = version
		return newSet(c)
	}
	report, err := Diff(of("0.1.0"), of(core.Version), Defaults())
	require.NoError(t, err)
	require.NotEmpty(t, report.Changes)
	for _, c := range report.Changes {
		require.NotEqual(t, Incomparable, c.Verdict)
	}
	require.Empty(t, report.OnlyOld)
	require.Empty(t, report.OnlyNew)
}

// The change of the medians is what a reader computes from the two columns, and Change is the
// shift.
func TestChangeOfMedians(t *testing.T) {
	c := one(t, newSet(cell(nil, 1, 10, 11)), newSet(cell(nil, 5, 12, 100)), Defaults())
	require.InDelta(t, 0.2, *c.OfMedians, 1e-9)
	require.NotEqual(t, *c.Change, *c.OfMedians)
}
