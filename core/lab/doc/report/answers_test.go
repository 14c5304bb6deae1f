package report

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The rankings have the order and the letters of diff --along transport.
func TestRankingsAreThoseOfDiff(t *testing.T) {
	s := committed(t)
	want, err := compare.Along(s, "transport", compare.Defaults())
	require.NoError(t, err)
	p := build(t, s)
	groups := 0
	for _, r := range p.doc.Rankings {
		for _, l := range r.Loads {
			groups++
			for _, g := range want.Groups {
				if g.Cell != l.Load || g.Metric != r.Metric {
					continue
				}
				require.Len(t, l.Cells, len(g.List))
				shares := func(c rankedCell) bool {
					return c.Group == "" || strings.ContainsAny(c.Group, l.Cells[0].Group)
				}
				require.Equal(t, g.Leader != "",
					l.Cells[0].Group != "" && !slices.ContainsFunc(l.Cells[1:], shares),
					"as the page's script tells")
				for i, c := range l.Cells {
					require.Equal(t, g.List[i].Group, c.Group)
					require.Equal(t, g.List[i].Value,
						p.doc.Series[p.doc.Cells.Series[c.Cell]].Transport)
				}
			}
		}
	}
	require.Equal(t, len(want.Groups), groups)
	require.Equal(t, result.Throughput, p.doc.Rankings[0].Metric)
}

// A set with one transport has no ranking, and says why.
func TestNothingToRank(t *testing.T) {
	p := build(t, fakeSet(t, loads()[:3], 2, 1))
	require.Empty(t, p.doc.Rankings)
	require.Len(t, p.doc.Unranked, 1)
}

// The first screen answers which transport, how far from the limit and how far to trust it.
func TestFirstScreenInBrowser(t *testing.T) {
	b := newTab(t)
	b.do(chromedp.EmulateViewport(1100, 900))
	b.open(rendered(t, build(t, committed(t))))
	require.True(t,
		eval[bool](b,
			`document.querySelector("#answers .trust-list").getBoundingClientRect().bottom <= 900`),
		"without scrolling")
	text := eval[string](b, `document.getElementById("answers").innerText`)
	for _, want := range []string{"shm has the best throughput under echo in_flight=1, ",
		", kv and kv track=matched; bulk: undecided between shm and copyrpc.",
		"echo in_flight=32",
		"kv", "letter in common",
		"time per op / floor", "p50 / round trip", "10 repeats", "41 of 41 cells usable"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, []string{"a and b", "5 loads"}, eval[[]string](b,
		`[listed(["a", "b"]), listed(Array(5).fill("a load with many options that differ"))]`))
	require.Equal(t, 41, eval[int](b, `document.querySelectorAll("figure.winners a").length`),
		"those that kv and kv track=matched have in common are drawn once")
	require.Equal(t, 7, eval[int](b, `document.querySelectorAll("table.ranking td.quiet a").length`))
	require.Equal(t, 8,
		eval[int](b, `document.querySelectorAll("table.ranking thead th").length - 1`))
	eval[bool](b,
		`(() => { const s = document.getElementById("ranked-by"); s.value = "latency_p99"; s.dispatchEvent(new Event("change")); return true; })()`)
	b.await(`document.querySelector("table.ranking").innerText.includes("ns")`)
	// The bars of a load have one scale, the fastest first.
	require.True(t, eval[bool](b, `[...document.querySelectorAll("#strip figure")].every((figure) => {
		const widths = [...figure.querySelectorAll("rect")].map((r) => parseFloat(r.getAttribute("width")));
		return widths[0] === 100 && widths.every((w, i) => i === 0 || w <= widths[i - 1]);
	})`))
}

// Filters are in the page's address, and leave no figures of cells that they hide.
func TestFiltersInTheAddress(t *testing.T) {
	b := newTab(t)
	b.open(rendered(t, build(t, committed(t))))
	choose := `(() => { const s = document.querySelector("select[name=load]"); s.value = "kv"; s.dispatchEvent(new Event("change")); return true; })()`
	eval[bool](b, choose)
	require.Contains(t, eval[string](b, `location.search`), "load=kv")
	require.Equal(t, 2, eval[int](b, `document.querySelectorAll("table.ranking tbody tr").length`))
	b.visit(eval[string](b, `location.href`))
	require.Equal(t, "kv", eval[string](b, `document.querySelector("select[name=load]").value`))
	require.Contains(t, eval[string](b, `document.getElementById("answers").innerText`),
		"8 of 8 cells usable")
	eval[bool](b, strings.ReplaceAll(choose, `"kv"`, `"echo in_flight=1"`))
	require.Equal(t, 8, eval[int](b, fastestRows), "the fastest of a load that another one beats")
	eval[bool](b, `(() => { for (const c of document.querySelectorAll("input[name=series]")) c.click(); return true; })()`)
	require.Equal(t, "No cell matches the filters.",
		eval[string](b, `document.getElementById("answers-figure").innerText`))
}

// Several sets share one table, of which the newest set's rows come first.
func TestRankingOfSeveralSets(t *testing.T) {
	b := newTab(t)
	list := []load{{"shm", "client-server", 1, 32, 0}, {"copyrpc", "client-server", 1, 32, 0},
		{"shm", "client-server", 4, 32, 0}, {"copyrpc", "client-server", 4, 32, 0},
		{"shm", "client-server", 16, 32, 0}, {"copyrpc", "client-server", 16, 32, 0}}
	old := fakeSet(t, list, 2, 1)
	p, err := Build(t.Context(), []*set.Set{old, fakeSet(t, list, 2, 1.1),
		fakeSet(t, list, 2, 1.2)}, Options{Compare: compare.Defaults(),
		Calibrations: func(sets ...*set.Set) []calibration.Found {
			if len(sets) == 1 && sets[0].Source == old.Source {
				return nil
			}
			return fakeCalibrations(sets...)
		}})
	require.NoError(t, err)
	b.open(rendered(t, p))
	trust, sets := eval[string](b, `document.querySelector(".trust-list").innerText`), p.doc.Sets
	require.Contains(t, trust, "6 loads of "+sets[2].Name+" and "+sets[1].Name+
		" with a clear best: it leads all others by more than 10%")
	require.Contains(t, trust, "3 loads of "+sets[0].Name+
		" with a clear best: it leads all others by more than 2%")
	rows := `document.querySelectorAll("table.ranking tbody tr").length`
	require.Equal(t, 1, eval[int](b, `document.querySelectorAll("table.ranking").length`))
	require.Equal(t, 3, eval[int](b, rows), "the loads of the last set")
	eval[bool](b, `(() => { document.querySelector(".more-loads").click(); return true; })()`)
	require.Equal(t, 9, eval[int](b, rows))
	require.Equal(t, "all 3 loads of 3 sets", func() string {
		eval[bool](b, `(() => { document.querySelector(".more-loads").click(); return true; })()`)
		return eval[string](b, `document.querySelector(".more-loads").textContent`)
	}())
}

// The transports of this repository have a colour each, whatever else a report shows.
func TestLooks(t *testing.T) {
	seen := map[int]string{}
	plugins, err := os.ReadDir("../../../../plugins")
	require.NoError(t, err)
	for _, plugin := range plugins {
		name := plugin.Name()
		if name == set.ReferenceTransport {
			continue
		}
		require.Empty(t, seen[lookOf(name)], name)
		seen[lookOf(name)] = name
	}
	require.Len(t, seen, looks)
}
