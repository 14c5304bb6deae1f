package report

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/doctor"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

func estimate(value, low, high float64) calibration.Estimate {
	return calibration.Estimate{Value: value, Low: &low, High: &high}
}

// fakeCalibrations finds a calibration of the first machine and none of another.
func fakeCalibrations(sets ...*set.Set) []calibration.Found {
	trials := func(found ...int) (list []calibration.Trials) {
		for i, known := range []float64{0.0101, 0.0203, 0.05, 0.1} {
			share := float64(found[i]) / 30
			list = append(list, calibration.Trials{Known: known, Count: 30, Found: found[i],
				Share: estimate(share, share/2, min(1, share*1.2))})
		}
		return list
	}
	d := &calibration.Document{
		StartedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Alpha: 0.05,
		Tool: result.Tool{Version: "1.2.3"},
		Recovery: []calibration.Recovery{{Quantity: "delay of half of the calls", Unit: "ns",
			Known: 200, Measured: estimate(203, 199, 207), Tolerance: 10, Within: true}},
		FalseVerdicts: []calibration.FalseVerdicts{
			{Method: "diff", Repeats: 10, Comparisons: 200, False: 7,
				Share: estimate(0.035, 0.0142, 0.0708), Within: true},
			{Method: "<b>along</b>", Repeats: 10, Comparisons: 200, False: 30,
				Share: estimate(0.15, 0.1035, 0.2072)},
		},
		Power: []calibration.Power{
			{Load: "echo", Class: "memory", Repeats: 10, Trials: trials(3, 9, 24, 30)},
			{Load: "echo", Class: "memory", Repeats: 20, Trials: trials(5, 15, 28, 30)},
			{Load: "echo", Class: "memory", Repeats: 10, Loaded: true,
				Trials: trials(1, 2, 9, 20)[1:]},
		},
	}
	d.Environment.Identity.CPU = "Some CPU"
	d.Power[2].Trials[0].Known = 0.0198
	return []calibration.Found{
		{Identity: sets[0].Environments[0].Identity, Document: d, Path: "results/calibration.json"},
		{Identity: map[string]string{"cpu": "another", "cores": "4"},
			Unused: []string{`x.json is of another machine: cores "2" instead of "4"`}},
	}
}

func buildCalibrated(t testing.TB, sets ...*set.Set) *Page {
	t.Helper()
	paths := &doctor.Paths{Hosts: []string{"h0", "h1"}}
	paths.Add(0, 1, 20_000, 1e9, nil)
	p, err := Build(context.Background(), sets,
		Options{Compare: compare.Defaults(), Calibrations: fakeCalibrations, Paths: paths})
	require.NoError(t, err)
	return p
}

// The page names the last calibration of each machine, or that there is none.
func TestCalibrationsOnThePage(t *testing.T) {
	s := fakeSet(t, loads()[:3], 6, 1)
	page := string(rendered(t, buildCalibrated(t, s)))
	trust := page[strings.Index(page, `id="trust"`):strings.Index(page, `id="trust-more"`)]
	for _, want := range []string{
		"2026-03-04 05:06 UTC, transportbench 1.2.3, full",
		"injected delays of 200 ns or more in half of the calls: 1 of 1 measured within",
		"alpha is 5%",
		`<th scope="row">diff</th><td class="right">0</td><td class="right">200</td><td class="right">7</td><td class="right">3.5%</td><td class="right">1.42 to 7.08%</td><td>yes</td>`,
		"&lt;b&gt;along&lt;/b&gt;",
		`<th scope="row">memory, loaded</th><td class="right">10</td><td class="right">1.98%</td><td class="right">30</td><td class="right">2</td>`, `<td class="right">20</td><td class="right">5%</td><td class="right">30</td><td class="right">28</td>`,
		"<h3>Calibration of Some CPU", "<h3>Calibration of another, 4 cores",
		"There is no calibration of this machine", "cores &#34;2&#34; instead of",
	} {
		require.Contains(t, trust, want)
	}
	require.Equal(t, 1, strings.Count(trust, "<td>no</td>"),
		"only one is significantly above alpha")
	require.NotContains(t, string(rendered(t, build(t, s))), "<h3>Calibration")
}

// The minimum effect between sets is what their machine was seen to find.
func TestChangesBelowTheCalibration(t *testing.T) {
	old, new := fakeSet(t, loads()[:3], 6, 1), fakeSet(t, loads()[:3], 6, 1.04)
	verdicts := func(p *Page) (counts int, floor float64) {
		r := p.doc.Diffs[0].Report
		return r.Count(compare.Better) + r.Count(compare.Worse), r.Floor
	}
	decided, floor := verdicts(build(t, old, new))
	require.Equal(t, 0.02, floor)
	require.Positive(t, decided)
	p := buildCalibrated(t, old, new)
	decided, floor = verdicts(p)
	require.Equal(t, 0.1, floor)
	require.Zero(t, decided)
	require.Contains(t, string(rendered(t, p)), "The minimum effect is 10%, found in "+
		"30 of 30 trials of memory with 10 repeats, not measured below 10 repeats")
	require.Contains(t, string(rendered(t, p)), " of 2026-03-04, results/calibration.json); "+
		"no full calibration of another, kernel unknown.")
	require.Contains(t, string(rendered(t, build(t, old, new))),
		"The minimum effect is 2%, the default; no full calibration of this machine.")
}
