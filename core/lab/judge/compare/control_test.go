package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// drifting is a machine whose speed drifts from round to round, and by a step between sets.
type drifting struct {
	*rand.Rand
	transports, repeats int
	drift, noise        float64 // of the logarithm, from round to round and within
	spread              float64 // of how a transport follows the machine, between sets
}

// set returns a set of two loads that were measured in rounds from a time on. level is that of the
// machine, and changes are those of transports, as logarithms.
func (d drifting) set(from time.Time, level float64, changes map[int]float64) *set.Set {
	s := newSet()
	follow := make([]float64, d.transports)
	for i := range follow {
		follow[i] = d.spread * d.NormFloat64()
	}
	for cellIndex := range 2 * d.transports {
		s.Cells = append(s.Cells, cell(map[string]string{
			"transport": fmt.Sprintf("t%d", cellIndex/2), "in_flight": fmt.Sprint(1 + cellIndex%2),
			"options.ring": fmt.Sprint(cellIndex / 2)}))
	}
	for round := range d.repeats {
		level += d.drift * d.NormFloat64()
		for i := range s.Cells {
			c := &s.Cells[i]
			value := level + follow[i/2] + changes[i/2] + d.noise*d.NormFloat64() + float64(i)
			c.Samples[result.Throughput] = append(c.Samples[result.Throughput], math.Exp(value))
			c.Windows = append(c.Windows, set.Window{Launch: round,
				StartedAt: from.Add(time.Duration(round*len(s.Cells)+i) * time.Second)})
		}
	}
	return s
}

var (
	firstTime  = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	secondTime = firstTime.Add(time.Hour)
)

// Equal sets of a machine that drifts and moves in between have a verdict in at most alpha of the
// comparisons, whether transports follow it alike or not.
func TestControlKeepsAlpha(t *testing.T) {
	const trials = 100
	for _, spread := range []float64{0, 0.05} {
		d := drifting{Rand: rand.New(rand.NewPCG(1, uint64(1000*spread))), transports: 6,
			repeats: 10, drift: 0.03, noise: 0.02, spread: spread}
		o := Defaults()
		o.Floor = 0
		wrong, plain, p := 0, 0, 0
		tests := 0
		for range trials {
			old := d.set(firstTime, 0, nil)
			new := d.set(secondTime, 0.15*d.NormFloat64(), nil)
			report, err := Diff(old, new, o)
			require.NoError(t, err)
			wrong += min(1, report.Count(Better)+report.Count(Worse))
			for i := range report.Changes {
				if c := &report.Changes[i]; c.P != nil {
					tests++
					if *c.P < o.Alpha {
						p++
					}
				}
			}
			pairs, err := Pairwise(old, new, o)
			require.NoError(t, err)
			plain += min(1, pairs.Count(Better)+pairs.Count(Worse))
		}
		require.LessOrEqual(t, float64(wrong), maxErrors(o.Alpha, trials), "spread %g", spread)
		require.Less(t, float64(p)/float64(tests), o.Alpha+0.01)
		require.Greater(t, plain, trials/2, "without a control the movement is a difference")
	}
}

// A change of one transport by 10% is found although the machine moved by more, and nothing else.
func TestControlFindsAChange(t *testing.T) {
	const trials = 60
	d := drifting{Rand: rand.New(rand.NewPCG(2, 1)), transports: 6, repeats: 10, drift: 0.02,
		noise: 0.01}
	found, others := 0, 0
	for range trials {
		old := d.set(firstTime, 0, nil)
		new := d.set(secondTime, math.Log(1.15), map[int]float64{2: -math.Log(1.1)})
		report, err := Diff(old, new, Defaults())
		require.NoError(t, err)
		hit := false
		for i := range report.Changes {
			c := &report.Changes[i]
			require.NotNil(t, c.Control)
			require.Equal(t, 5, c.Control.Others)
			require.InDelta(t, 1+c.Control.Raw, (1+c.Control.Machine)*(1+*c.Change), 1e-9)
			switch {
			case c.Transport == "t2":
				hit = hit || c.Verdict == Worse
				require.InDelta(t, -0.09, *c.Change, 0.04)
			case c.Verdict == Better || c.Verdict == Worse:
				others++
			}
		}
		if hit {
			found++
		}
	}
	require.GreaterOrEqual(t, found, trials*8/10)
	require.LessOrEqual(t, float64(others), maxErrors(0.05, trials))
}

func TestReadout(t *testing.T) {
	c := Change{Control: &Control{Raw: 0.48, Machine: 0.46}, Change: new(0.02), Low: new(-0.18),
		High: new(0.24)}
	require.Equal(t,
		"raw +48.0%; the machine moved +46.0%; own change +2.00% (-18.0% to +24.0%)", c.Readout())
	require.Empty(t, (&Change{}).Readout())
}

// Beyond 25% of movement there is no verdict, and thresholds cannot fail.
func TestNoVerdictIfTheMachineMovedFar(t *testing.T) {
	d := drifting{Rand: rand.New(rand.NewPCG(3, 1)), transports: 5, repeats: 10, drift: 0.01,
		noise: 0.01}
	o := Defaults()
	threshold, err := ParseThreshold("throughput<-3%")
	require.NoError(t, err)
	o.Thresholds = []Threshold{threshold}
	report, err := Diff(d.set(firstTime, 0, nil),
		d.set(secondTime, -0.5, map[int]float64{0: -1}), o)
	require.NoError(t, err)
	require.Equal(t, "the machine moved by more than 25% between the sets",
		report.Changes[9].Withheld())
	require.Equal(t, 10, report.Count(Ambiguous))
	require.Zero(t, report.Tests)
	require.Empty(t, report.Broken)
	require.Equal(t, ThresholdTests{Tests: 10, Moved: 10}, report.Thresholds)
	require.Contains(t, report.Notes[0], "the machine moved between the sets")
}

// Others disturb every window of the transports that poll, but none of the one that sleeps. Nothing
// shows how the machine moved under it, so it has no verdict, and its thresholds cannot fail.
func TestNoVerdictIfOthersAreDisturbed(t *testing.T) {
	d := drifting{Rand: rand.New(rand.NewPCG(4, 2)), transports: 6, repeats: 10, drift: 0.01,
		noise: 0.01}
	of := func(at time.Time, level, taken float64) *set.Set {
		s := d.set(at, level, nil)
		for i := range s.Cells {
			for j := range s.Cells[i].Windows {
				w := &s.Cells[i].Windows[j]
				if w.DistanceBefore, w.DistanceAfter = 50, 50; s.Cells[i].Transport() != "t5" {
					w.Taken = taken
				}
			}
		}
		return s
	}
	o := Defaults()
	threshold, err := ParseThreshold("transport=t5: throughput<-3%")
	require.NoError(t, err)
	o.Thresholds = []Threshold{threshold}
	report, err := Diff(of(firstTime, 0, 0), of(secondTime, -0.5, 0.5), o)
	require.NoError(t, err)
	require.Equal(t, len(report.Changes), report.Count(Ambiguous))
	require.Zero(t, report.Tests)
	require.Equal(t, ThresholdTests{Tests: 2, Moved: 2}, report.Thresholds)
	require.Equal(t, Bridge, report.Bridge)
	require.Contains(t, report.Notes, "no control for 2 changes, because of "+unseenMovement+
		": they have no verdict")
	for i := range report.Changes {
		if c := &report.Changes[i]; c.Transport == "t5" {
			require.Equal(t, unseenMovement, c.Withheld())
		}
	}
}

// With fewer than four others the change is judged as it is, beyond what the machine is known to
// drift by, and the report says why.
func TestTooFewOthers(t *testing.T) {
	d := drifting{Rand: rand.New(rand.NewPCG(4, 1)), transports: 4, repeats: 10, drift: 0.01,
		noise: 0.01}
	o := Defaults()
	old := d.set(firstTime, 0, nil)
	new := d.set(secondTime, -0.2, nil)
	report, err := Diff(old, new, o)
	require.NoError(t, err)
	require.Equal(t, 8, report.Count(Worse))
	const why = "no control for 8 changes, because of fewer than 4 other transports under the " +
		"same load, and no reference"
	require.Equal(t, why, report.Notes[0])
	require.Equal(t, Bridge, report.Bridge, "as two runs")
	o.Drift, o.DriftFrom = 0.25, "seen"
	report, err = Diff(old, new, o)
	require.NoError(t, err)
	require.Zero(t, report.Count(Worse))
	require.Equal(t, why+"; the minimum effect there: 25%, seen", report.Notes[0])
	report, err = Pairwise(old, new, o)
	require.NoError(t, err)
	require.Empty(t, report.Changes[0].Uncontrolled, "sides in turns need none")
	require.Empty(t, report.Bridge)
	new.Environments[0].Identity = map[string]string{"cpu": "another", "kernel": "6.1"}
	o.Across = []string{"cpu"}
	report, err = Diff(old, new, o)
	require.NoError(t, err)
	require.Empty(t, report.Bridge, "no machine has both sides")
}

// What a new runtime, version or revision changes for all looks like a movement of the machine, and
// the report says so. If nothing differs, or most transports did not move, it was the machine.
func TestRuntimeIsNotTheMachine(t *testing.T) {
	d := drifting{Rand: rand.New(rand.NewPCG(5, 1)), transports: 5, repeats: 10, noise: 0.01}
	diff := func(level float64, edit func(c *set.Cell)) *Report {
		t.Helper()
		old, new := d.set(firstTime, 0, nil), d.set(secondTime, level, nil)
		for i := range new.Cells {
			old.Cells[i].Tool = &result.Tool{Version: "1", Revision: "r"}
			new.Cells[i].Tool = &result.Tool{Version: "1", Revision: "r"}
			edit(&new.Cells[i])
		}
		report, err := Diff(old, new, Defaults())
		require.NoError(t, err)
		require.Equal(t, Bridge, report.Bridge)
		return report
	}
	edits := map[string]func(*set.Cell){
		"runtime":  func(c *set.Cell) { c.Plugin.RuntimeDigest = "e" },
		"version":  func(c *set.Cell) { c.Tool.Version = "2" },
		"revision": func(c *set.Cell) { c.Tool.Revision = "s" },
	}
	for what, edit := range edits {
		for _, level := range []float64{0.1, -0.1} {
			together := diff(level, edit).Together
			require.Regexp(t, `^most transports moved together \(throughput by [-+].*%\) and the `+
				what+` differs: these sets cannot tell`, together)
		}
		require.Empty(t, diff(0.002, edit).Together, "within the minimum effect")
	}
	require.Empty(t, diff(0.1, func(*set.Cell) {}).Together, "nothing else differs")
}

// A set of one transport has the reference as its control, which widens the interval by what
// transports were seen to differ by at such a movement.
func TestReference(t *testing.T) {
	const trials = 100
	d := drifting{Rand: rand.New(rand.NewPCG(6, 1)), transports: 2, repeats: 10, drift: 0.02,
		noise: 0.01}
	withReference := func(s *set.Set) *set.Set {
		for i := range s.Cells[2:] {
			c := &s.Cells[2+i]
			c.Config["transport"], c.Config["profile"] = set.ReferenceTransport, "reference"
		}
		s.Cells = s.Cells[:3]
		s.SetReferenceAside()
		require.Len(t, s.Cells, 2)
		require.Len(t, s.Reference, 1)
		return s
	}
	wrong, found := 0, 0
	for range trials {
		for _, change := range []float64{0, -0.5} {
			report, err := Diff(withReference(d.set(firstTime, 0, nil)), withReference(
				d.set(secondTime, 0.05*d.NormFloat64(), map[int]float64{0: change})), Defaults())
			require.NoError(t, err)
			require.Len(t, report.Changes, 2)
			require.True(t, report.Changes[0].Control.Reference)
			verdicts := min(1, report.Count(Better)+report.Count(Worse))
			if change == 0 {
				wrong += verdicts
			} else {
				found += min(1, report.Count(Worse))
			}
		}
	}
	require.LessOrEqual(t, float64(wrong), maxErrors(0.05, trials))
	require.Greater(t, found, trials*8/10)
}

// Throughput of disturbed sets has no verdict if the median latency has one.
func TestDisturbedSetsAreJudgedByP50(t *testing.T) {
	d := drifting{Rand: rand.New(rand.NewPCG(7, 1)), transports: 6, repeats: 10, noise: 0.01}
	of := func(at time.Time, steal, preempted float64) *set.Set {
		s := d.set(at, 0, nil)
		for i := range s.Cells {
			c := &s.Cells[i]
			c.Samples[result.LatencyP50] = noisy(d.Rand, d.repeats, 1000, 0.01)
			c.Samples[result.Steal] = []float64{steal}
			c.Warnings = []result.Finding{{Name: "preempted", Value: preempted}}
		}
		return s
	}
	for _, c := range []struct {
		steal, preempted float64
		tests            int
	}{{0.01, 0.005, 24}, {0.01, 0.02, 12}} {
		report, err := Diff(of(firstTime, 0, 0), of(secondTime, c.steal, c.preempted), Defaults())
		require.NoError(t, err)
		require.Equal(t, c.tests, report.Tests)
	}
}

// The loads of a transport together have a verdict where six repeats of none of them can: a change
// of one transport by 10% is found if the others follow the machine alike, and equal sets have a
// verdict in at most alpha of the comparisons, whether they do or not.
func TestTransportsOverAllLoads(t *testing.T) {
	const trials = 40
	for _, spread := range []float64{0, 0.05} {
		d := drifting{Rand: rand.New(rand.NewPCG(8, uint64(1000*spread))), transports: 8,
			repeats: 6, drift: 0.02, noise: 0.02, spread: spread}
		found, wrong := 0, 0
		for range trials {
			for _, change := range []float64{0, -math.Log(1.1)} {
				report, err := Diff(d.set(firstTime, 0, nil), d.set(secondTime,
					0.05*d.NormFloat64(), map[int]float64{2: change}), Defaults())
				require.NoError(t, err)
				require.Len(t, report.Transports, 8)
				require.Zero(t, report.Count(Worse)+report.Count(Better), "too few repeats")
				any := false
				for _, row := range report.Transports {
					switch told := row.Verdict == Worse || row.Verdict == Better; {
					case change == 0 || row.Transport != "t2":
						any = any || told
					case row.Verdict == Worse:
						found++
						require.Equal(t, "t2, all 2 loads", row.Cell)
						require.Less(t, *row.High, 0.0)
					}
				}
				if any {
					wrong++
				}
			}
		}
		t.Logf("spread %g: found %d, wrong %d", spread, found, wrong)
		require.LessOrEqual(t, float64(wrong), maxErrors(0.05, 2*trials))
		if spread == 0 {
			require.GreaterOrEqual(t, found, trials*8/10)
		}
	}
}

// If only some transports have the same sources on both sides, these alone are the control, so that
// a change of the others by 20% is found, and is not taken for one that transports make on their
// own. Equal transports have a verdict in at most alpha of the comparisons.
func TestUnchangedTransportsAreTheControl(t *testing.T) {
	const trials = 40
	sources := func(s *set.Set, version string, changed int) *set.Set {
		for i := range s.Cells {
			s.Cells[i].Plugin.SHA256, s.Cells[i].Plugin.Sources = version, "same"
			if i/2 < changed {
				s.Cells[i].Plugin.Sources = version
			}
		}
		return s
	}
	faster := map[int]float64{0: math.Log(1.2), 1: math.Log(1.2), 2: math.Log(1.2)}
	for _, spread := range []float64{0, 0.05} {
		d := drifting{Rand: rand.New(rand.NewPCG(9, uint64(1000*spread))), transports: 8,
			repeats: 10, drift: 0.02, noise: 0.02, spread: spread}
		found, plain, wrong := 0, 0, 0
		for range trials {
			old := d.set(firstTime, 0, nil)
			for _, changes := range []map[int]float64{nil, faster} {
				new := d.set(secondTime, 0.05*d.NormFloat64(), changes)
				report, err := Diff(sources(old, "old", 3), sources(new, "new", 3), Defaults())
				require.NoError(t, err)
				require.Equal(t, "5 of 8 transports have the same sources: they are the control "+
					"(t3, t4, t5, t6, t7)", report.Notes[0])
				any := false
				for _, row := range report.Rows() {
					changed := row.Transport < "t3"
					if row.Config != nil {
						require.Equal(t, map[bool]int{true: 5, false: 4}[changed],
							row.Control.Others)
					}
					told := row.Verdict == Better || row.Verdict == Worse
					switch {
					case !changed || changes == nil:
						any = any || told
					case row.Verdict == Better && row.Config == nil:
						found++
					}
				}
				if any {
					wrong++
				}
				if changes == nil {
					continue
				}
				for _, changed := range []int{8, 4} { // too few are the same
					report, err = Diff(sources(old, "old", changed),
						sources(new, "new", changed), Defaults())
					require.NoError(t, err)
					require.NotContains(t, report.Notes[0], "same sources")
					plain += report.CountTransports(Better)
				}
			}
		}
		t.Logf("spread %g: found %d, without the sources %d, wrong %d", spread, found, plain, wrong)
		require.LessOrEqual(t, float64(wrong), maxErrors(0.05, 2*trials))
		require.Zero(t, plain, "cannot be told from how differently transports follow the machine")
		if spread == 0 {
			require.GreaterOrEqual(t, found, 3*trials*8/10)
		}
	}
}
