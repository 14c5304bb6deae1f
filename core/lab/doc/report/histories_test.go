package report

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/judge/history/historytest"
	"transportbench/core/lab/store/set"
)

// nights are throughputs that fall by a fifth in the seventh of twelve sets.
var nights = []float64{1e6, 1.002e6, 0.999e6, 1.001e6, 1e6, 0.998e6, 0.8e6, 0.801e6, 0.799e6, 0.8e6,
	0.802e6, 0.8e6}

func nightly(t *testing.T, throughputs ...float64) []*set.Set {
	t.Helper()
	dirs,
		err := filepath.Glob(filepath.Join(historytest.Write(t, t.TempDir(), 2, 3, throughputs...),
		"*"))
	require.NoError(t, err)
	var sets []*set.Set
	for _, dir := range dirs {
		s, err := set.Load(dir)
		require.NoError(t, err)
		sets = append(sets, s)
	}
	return sets
}

func TestHistory(t *testing.T) {
	sets := nightly(t, nights...)
	p := build(t, sets...)
	require.Len(t, p.history.Cells, 2)
	require.Zero(t, p.history.Short)
	for i, c := range p.history.Cells {
		require.Len(t, c.Rows, 3, "metrics")
		require.Equal(t, "v0.0.0, commit 0000000000", c.Commits[0].Text)
		r := c.Rows[0]
		require.Equal(t, "throughput", r.Metric)
		require.Len(t, r.Sets, len(sets))
		require.Equal(t, 2*6+i, r.Sets[5].Cell, "six sets are newer")
		require.Equal(t, "v0.5.0, commit 0000000000: 998 K op/s", r.Sets[5].Text)
		require.Len(t, r.Marks, 1)
		m := r.Marks[0]
		require.Equal(t, "v0.6.0", m.Version, "the first version after the step")
		require.InDelta(t, 100*6.0/11, m.X, 1e-9)
		require.Equal(t, "worse", m.Class)
		require.Contains(t, m.Text,
			"v0.5.0 to v0.6.0: 1.00 M op/s to 800 K op/s, -20.0%, commits 0000000000..0000000000")
		require.Equal(t, 6, m.Diff)
		require.Equal(t, i, c.Cell, "the newest set's")
	}

	require.NoError(t, history.Bless(sets[6].Source,
		history.Blessing{Who: "ada", Why: "<checksums>", At: time.Unix(0, 0)}))
	p = build(t, sets...)
	require.Equal(t, "accepted", p.history.Cells[0].Rows[0].Marks[0].Class)
	require.Contains(t, string(rendered(t, p)), "accepted by ada: &lt;checksums&gt;")
}

// A set whose bytes took another path has a mark of its own.
func TestHistoryOfPaths(t *testing.T) {
	sets := nightly(t, nights[:4]...)
	for i, s := range sets {
		for c := range s.Cells {
			s.Cells[c].Plugin.Path = []string{map[bool]string{false: "eth0", true: "bond0"}[i >= 2]}
		}
	}
	p := build(t, sets...)
	marks := p.history.Cells[0].Rows[0].Marks
	require.Len(t, marks, 1)
	require.Equal(t, "path", marks[0].Class)
	require.Equal(t, "v0.2.0", marks[0].Version, "the first set with the new path")
	require.InDelta(t, 100*2.0/3, marks[0].X, 1e-9)
	require.Contains(t, marks[0].Text,
		"v0.1.0 to v0.2.0: the bytes took another path: eth0, and now bond0")
}

func TestHistoryNeedsSets(t *testing.T) {
	require.Empty(t, build(t, nightly(t, nights[:2]...)...).history)
	p := build(t, nightly(t, nights[:4]...)...)
	require.Equal(t, 6, p.history.Short, "three metrics of two cells")
	require.Empty(t, p.history.Cells[0].Rows[0].Marks)
}

func TestHistoryInBrowser(t *testing.T) {
	b := newTab(t)
	b.open(rendered(t, build(t, nightly(t, nights...)...)))
	require.Equal(t, 6,
		eval[int](b, `document.querySelectorAll(".history .spark polyline").length`),
		"two cells, three metrics")
	require.Equal(t, "v0.6.0", eval[string](b,
		`document.querySelector(".history .spark text").textContent`))
	// The line falls where the mark is: its box has the height of the row, and the mark lies inside
	// it.
	require.True(t, eval[bool](b, `(() => {
		const line = document.querySelector(".history polyline").getBoundingClientRect(), mark = document.querySelector(".history .spark line").getBoundingClientRect();
		return line.width > 50 && line.height > 15 && mark.left > line.left && mark.left < line.right;
	})()`))
	// A point leads to the cell in its set, and a change to the comparison of the sets.
	require.Equal(t, 6*12, eval[int](b, `document.querySelectorAll(".history .spark a").length`))
	require.True(t, eval[bool](b, `[...document.querySelectorAll(".marks a")].every((a) => document.querySelector(a.getAttribute("href")))`))
	eval[bool](b, `document.querySelector(".history .spark a").dispatchEvent(new MouseEvent("click", { bubbles: true, view: window })); true`)
	b.await(`!document.getElementById("page").hidden`)
}
