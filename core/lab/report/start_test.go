package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/result"
)

// The phases of a start are those of the slowest rank, means over the launches, stacked and without a
// rest that nothing explains.
func TestStart(t *testing.T) {
	slower := result.Setup{CloseMS: 0.4, Ranks: []record.RankSetup{{OpenNS: 35e5, ConnectAllNS: 5e5, RegisterNS: 5e5}}}
	b := startOf([]*result.Result{
		{Launches: []result.Launch{{Setup: fakeSetup}, {Setup: result.Setup{CloseMS: 1}}}}, // an older version's has no ranks
		{Launches: []result.Launch{{Setup: slower}}},
	})
	means := map[string]float64{}
	for _, p := range b.Parts {
		means[p.Label()] = p.Mean
	}
	require.Equal(t, map[string]float64{"open: register": 5e5, "open": 2e6, "connect": 4e5, "first call": 2.5e4, "close": 3e5}, means)
	require.InDelta(t, 3.225e6, b.Whole, 1)
	require.Nil(t, startOf([]*result.Result{{Launches: []result.Launch{{}}}}))
}

func TestStartOnThePage(t *testing.T) {
	p := build(t, fakeSet(t, loads()[:2], 2, 1))
	phase := p.phases[len(p.phases)-1]
	require.Equal(t, startTitle, phase.Title)
	var names, texts []string
	for _, part := range phase.Legend {
		names = append(names, part.Name)
	}
	for _, bar := range phase.Rows[1].Bars {
		texts = append(texts, bar.Text)
	}
	require.Equal(t, []string{"open", "register", "connect", "first call", "close"}, names)
	require.Equal(t, []string{"open: 1.50 ms, 73.2%", "open: register: 500 us, 24.4%", "connect: 300 us, 14.6%", "first call: 50.0 us, 2.44%", "close: 200 us, 9.76%"}, texts)
	require.InDelta(t, 100, phase.Rows[1].At, 1e-9)
	b := newTab(t)
	b.open(rendered(t, p))
	require.Contains(t, eval[string](b, `document.getElementById("phases-table").innerText`), startTitle)
	eval[bool](b, `(() => { location.hash = "#cell-1"; return true; })()`)
	b.await(`document.getElementById("page").innerText.includes("What a start takes")`)
	require.Contains(t, eval[string](b, `document.getElementById("page").innerText`), "open: register")
}
