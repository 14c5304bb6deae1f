package report

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// pageOf returns the page that most tests use.
var pageOf = sync.OnceValue(func() func(t testing.TB) []byte {
	var once sync.Once
	var page []byte
	return func(t testing.TB) []byte {
		once.Do(func() {
			s := fakeSet(t, loads(), 6, 1)
			page = rendered(t, buildCalibrated(t, s))
			pageCells = s.Cells
		})
		return page
	}
})

// pageCells are the cells of the set on that page.
var pageCells []set.Cell

func TestPageInBrowser(t *testing.T) {
	b := newTab(t)
	b.open(pageOf()(t))
	require.Equal(t, "30 of 30 cells", eval[string](b,
		`document.getElementById("shown").textContent`))
	require.Equal(t, 12, eval[int](b, fastestRows),
		"three transports; two sizes, a mesh and open loops")
	require.Equal(t, 6, eval[int](b, `document.querySelectorAll("#curves .chart canvas").length`),
		"three percentiles, closed and open loops")
	require.Positive(t, eval[int](b, `document.querySelectorAll("#phases .bar rect").length`))
	// Every chart has more than axes: pixels of a series' colour.
	require.True(t, eval[bool](b, `[...document.querySelectorAll("#curves canvas, #spectrum canvas")].every((c) => {
		const want = [0x00, 0x67, 0xa8], d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		for (let i = 0; i < d.length; i += 4) if (Math.abs(d[i] - want[0]) + Math.abs(d[i + 1] - want[1]) + Math.abs(d[i + 2] - want[2]) < 12 && d[i + 3] > 200) return true;
		return false;
	})`))
	require.Empty(t,
		eval[string](b,
			`performance.getEntriesByType("resource").map((r) => r.name).filter((n) => !n.startsWith("data:")).join()`), "nothing is fetched")
}

func TestFilters(t *testing.T) {
	b := newTab(t)
	b.open(pageOf()(t))
	points :=
		`[...document.querySelectorAll("#curves-closed .chart")].map((c) => /(\d+) point/.exec(c.getAttribute("aria-label"))[1]).join()`
	require.Equal(t, "21,21,21", eval[string](b, points))

	b.do(chromedp.Click(`#filters input[name=series][value="0"]`))
	b.await(`document.getElementById("shown").textContent === "20 of 30 cells"`)
	require.Equal(t, "14,14,14", eval[string](b, points))
	require.Equal(t, 8, eval[int](b, fastestRows))
	require.Zero(t,
		eval[int](b,
			`[...document.querySelectorAll(".heat tbody tr:not([hidden])")].filter((r) => r.textContent.trim().startsWith("copyrpc")).length`))
	require.Zero(t,
		eval[int](b,
			`[...document.querySelectorAll("#phases .bar-row:not(.off)")].filter((r) => r.textContent.includes("copyrpc")).length`))

	require.Equal(t, 4, eval[int](b,
		`document.querySelectorAll("#paths figure:not([hidden]) tbody tr:not([hidden])").length`),
		"two maps of two hosts, which no filter concerns")

	name := eval[string](b,
		`[...document.querySelectorAll("#filters .axis")].find((l) => l.textContent.startsWith("value_size")).querySelector("select").name`)
	eval[bool](b,
		fmt.Sprintf(
			`(() => { const s = document.querySelector("select[name=%s]"); s.value = [...s.options].find((o) => o.text === "4KiB").value; s.dispatchEvent(new Event("change")); return true; })()`, name))
	b.await(`document.getElementById("shown").textContent === "6 of 30 cells"`)
	require.Equal(t, "6,6,6", eval[string](b, points))
	require.True(t, eval[bool](b, `document.getElementById("curves-open").hidden`),
		"no open loop has that payload")
	require.Equal(t, 6, eval[int](b, `document.querySelectorAll("#all-table tbody tr").length`))

	b.do(chromedp.Click(`#reset`))
	b.await(`document.getElementById("shown").textContent === "30 of 30 cells"`)
	require.Equal(t, "21,21,21", eval[string](b, points))
	require.Equal(t, "reset", eval[string](b, `document.activeElement.id`), "the focus stays")
}

func TestScalesAndMetrics(t *testing.T) {
	b := newTab(t)
	b.open(pageOf()(t))
	// Go draws the heat map with throughput; redrawn in the browser it is the same.
	text :=
		`[...document.querySelectorAll(".heat a")].map((a) => a.className + a.textContent).join("|")`
	drawn := eval[string](b, text)
	require.Contains(t, drawn, "100%")
	eval[bool](b, `paintHeat(); true`)
	require.Equal(t, drawn, eval[string](b, text))
	eval[bool](b,
		`(() => { const s = document.getElementById("heat-metric"); s.value = "latency_p99"; s.dispatchEvent(new Event("change")); return true; })()`)
	repainted := eval[string](b, text)
	require.NotEqual(t, drawn, repainted)
	require.Contains(t, repainted, " us")

	b.do(chromedp.Click(`#curves-closed .toggle:first-child input`))
	b.await(
		`look.closed.x === false && document.querySelectorAll("#curves-closed canvas").length === 3`)
	// Rows of a load have one scale, until they fill their width.
	full := `[...document.querySelectorAll("#phases figure:first-of-type .load")].map((load) => {
		const rows = [...load.querySelectorAll("svg.bar line")].map((l) => parseFloat(l.getAttribute("x1")) > 99.9);
		return rows.filter((r) => r).length + " of " + rows.length;
	}).join()`
	require.Regexp(t, `^(1 of [23],?)+$`, eval[string](b, full))
	b.do(chromedp.Click(`#bars-fill`))
	b.await(`/^((2 of 2|3 of 3),?)+$/.test(` + full + `)`)
	// Dragging zooms, and a double click resets.
	b.await(`document.querySelector("#curves-closed .u-over") !== null`)
	ticks :=
		`(() => { const r = document.querySelector("#curves-closed .u-over").getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()`
	eval[bool](b,
		`document.querySelector("#curves-closed .chart").scrollIntoView({block: "center", behavior: "instant"}); true`)
	box := eval[[]float64](b, ticks)
	before := eval[string](b, `document.querySelector("#curves-closed canvas").toDataURL()`)
	b.do(chromedp.DragAndDropXY(box[0]+box[2]*0.3, box[1]+box[3]*0.3, box[0]+box[2]*0.6,
		box[1]+box[3]*0.7, 10))
	b.await(fmt.Sprintf(`document.querySelector("#curves-closed canvas").toDataURL() !== %q`,
		before))
	eval[bool](b,
		`document.querySelector("#curves-closed .u-over").dispatchEvent(new MouseEvent("dblclick", {bubbles: true})); true`)
	b.await(fmt.Sprintf(`document.querySelector("#curves-closed canvas").toDataURL() === %q`,
		before))
}

// The keyboard can do all that the mouse can.
func TestKeyboard(t *testing.T) {
	b := newTab(t)
	b.open(pageOf()(t))
	b.press(kb.Tab)
	require.Equal(t, "skip", eval[string](b, `document.activeElement.className`))
	b.press(kb.Tab)
	require.Equal(t, "#answers", eval[string](b, `document.activeElement.getAttribute("href")`))

	eval[bool](b, `document.querySelector("#curves-closed .chart").focus(); true`)
	b.press(kb.ArrowRight)
	b.await(`!document.getElementById("tip").hidden`)
	tip := eval[string](b, `document.getElementById("tip").innerText`)
	require.Regexp(t, `throughput .* op/s \(.* to .*\)`, tip, "with the interval")
	require.Equal(t, "polite", eval[string](b,
		`document.getElementById("tip").getAttribute("aria-live")`))
	b.press(kb.ArrowRight)
	require.NotEqual(t, tip, eval[string](b, `document.getElementById("tip").innerText`))
	b.press(kb.Enter)
	b.await(`!document.getElementById("page").hidden && document.activeElement.tagName === "H2"`)
	require.True(t, eval[bool](b, `document.getElementById("main").hidden`))
	b.press(kb.Escape)
	b.await(`document.getElementById("page").hidden && !document.getElementById("main").hidden`)

	// Every control can be reached, and has a name.
	require.Empty(t, eval[string](b, `[...document.querySelectorAll("button, select, input, a[href], [tabindex='0']")].filter((e) =>
		!(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length || e.title)).map((e) => e.outerHTML.slice(0, 80)).join()`))
	require.Empty(t,
		eval[string](b,
			`[...document.querySelectorAll("svg:not([aria-hidden]):not([role])")].map((e) => e.outerHTML.slice(0, 80)).join()`))
	require.True(t,
		eval[bool](b,
			`[...document.querySelectorAll("#curves > div:not(#curve-notes), #spectrum, #heat, #phases, #verdict")].every((s) => s.querySelector("details.table"))`), "a table behind each chart")
	eval[bool](b, everyFold)
	b.await(`document.querySelectorAll("table").length > 8`)
	require.True(t,
		eval[bool](b,
			`[...document.querySelectorAll("table")].every((t) => t.caption.textContent && t.querySelectorAll("th[scope=col]").length)`))
}

// The page of a cell has its raw samples, unrounded.
func TestCellPage(t *testing.T) {
	page := pageOf()(t)
	var doc document
	unpacked(t, page, "data", &doc)
	b := newTab(t)
	b.open(page)
	for _, cell := range []int{0, 17, 29} {
		eval[bool](b, fmt.Sprintf(`location.hash = "cell-%d"; true`, cell))
		b.await(fmt.Sprintf(`document.querySelector("#page h2")?.textContent === %q`,
			doc.Cells.Names[cell]))
		text := eval[string](b, `document.getElementById("page").innerText`)
		for _, part := range []string{"Analysis", "Figures", "Checks", "Raw samples",
			"Configuration", "Environment", "Some CPU", "in_flight", "Percentiles"} {
			require.Contains(t, text, part)
		}
		rows := eval[[][]string](b,
			`[...[...document.querySelectorAll("#page section")].find((s) => s.querySelector("h3").textContent === "Raw samples").querySelectorAll("tbody tr")].map((r) => [...r.children].map((c) => c.textContent))`)
		require.Len(t, rows, len(pageCells[cell].Samples))
		for _, row := range rows {
			var values []string
			for _, v := range pageCells[cell].Samples[row[0]] {
				values = append(values, eval[string](b, fmt.Sprintf("String(%v)", v)))
			}
			require.Equal(t, values, row[2:], row[0])
		}
		b.await(`document.querySelector("#page canvas") !== null`)
	}
	eval[bool](b, `location.hash = "back"; true`)
	b.await(`document.getElementById("page").hidden`)
}

// The page of a cell has the loops of each rank, for every topology: a row of events, the
// percentiles of each phase, and a histogram whose shares add up to 100%.
func TestLoopsOnCellPage(t *testing.T) {
	l := load{"copyrpc", "mesh-proxied", 4, 32, 0}
	r := fake(t, l, 6, 1, 1)
	for i := range r.Repeats {
		far := r.Repeats[i].Ranks[0]
		far.Rank = 1
		far.Daemons = slices.Clone(far.Daemons)
		d := &far.Daemons[0]
		d.Loops, d.EmptyLoops = 2e6, 5e5
		d.Phases = maps.Clone(d.Phases)
		slow := record.NewHistogram()
		for _, ns := range []uint64{40, 700, 700, 20_000} {
			slow.Record(ns)
		}
		d.Phases[record.PhaseLoop] = record.TimingReport{Histogram: slow.Encode(), MeanNS: 5360,
			Samples: 4}
		d.Transport = []transport.Stat{
			{Name: transport.StatBatches, Value: 10},
			{Name: transport.StatBatchedMessages, Value: 30},
			{Name: transport.StatDoorbells, Value: 11}, {Name: transport.StatCreditOnly, Value: 1},
		}
		far.Clients = r.Repeats[i].Ranks[1].Clients
		r.Repeats[i].Ranks[1] = far
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "0.json"), r)
	s, err := set.Load(dir)
	require.NoError(t, err)
	b := newTab(t)
	b.open(rendered(t, build(t, s)))
	eval[bool](b, `location.hash = "cell-0"; true`)
	b.await(`document.querySelector("#page h2") !== null`)
	rows := func(caption string) [][]string {
		return eval[[][]string](b, fmt.Sprintf(
			`[...[...document.querySelectorAll("#page table")].find((t) => t.caption.textContent.startsWith(%q)).querySelectorAll("tbody tr")].map((r) => [...r.children].map((c) => c.textContent))`, caption))
	}
	events := rows("events per iteration")
	require.Len(t, events, 2)
	require.Equal(t, []string{"0", "0.200"}, []string{events[0][0], events[0][2]})
	require.Equal(t, []string{"1", "0.250"}, []string{events[1][0], events[1][2]})
	phases := rows("phases, of sampled iterations")
	require.Len(t, phases, 2*5)
	require.Equal(t, []string{"1", record.PhaseLoop, "5.36 us", "700 ns", "20.0 us", "20.0 us",
		"20.0 us", "24"}, phases[8])
	times := rows("sampled iterations by their time")
	require.Equal(t, []string{"1", "6", "0", "0", "0", "12", "0", "0", "0", "6", "▄▁▁▁█▁▁▁▄"},
		times[2])
	require.Equal(t, []string{"", "25.0%", "0.0%", "0.0%", "0.0%", "50.0%", "0.0%", "0.0%", "0.0%",
		"25.0%", ""}, times[3])
	batches := rows("batches of the transport")
	require.Len(t, batches, 6)
	require.Equal(t, []string{"1", "0", "10", "30", "3.00", "-", "-", "-", "11", "1"}, batches[0])
	require.Empty(t,
		eval[string](b,
			`[...document.querySelectorAll("#page table")].filter((t) => t.innerText.includes("undefined") || t.innerText.includes("NaN")).map((t) => t.caption.textContent).join()`))
}

// The page formats figures as the tables in the terminal do.
func TestFormatInBrowser(t *testing.T) {
	b := newTab(t)
	b.open(pageOf()(t))
	var calls, want []string
	for _, unit := range []string{"ns", "op/s", "B/s", "ratio", "ns/op", "token/s"} {
		for e := -6.0; e < 12; e += 0.37 {
			v := math.Pow(10, e)
			calls, want = append(calls, fmt.Sprintf("number(%v, %q)", v, unit)),
				append(want, format.Number(v, unit))
		}
	}
	// Values halfway between two figures, and next to that.
	for _, v := range []float64{520.5, 521.5, 100.5, 1e5 + 0.5, 20.25, 20.75, 2.125, 2.375, 0.0625,
		0.1875, 1.005} {
		for _, near := range []float64{v, math.Nextafter(v, 0), math.Nextafter(v, 1e9), -v} {
			calls, want = append(calls, fmt.Sprintf("digits(%v)", near)),
				append(want, format.Digits(near))
		}
	}
	got := eval[[]string](b, "["+strings.Join(calls, ",")+"]")
	for i := range want {
		require.Equal(t, want[i], got[i], calls[i])
	}
}

// fastestRows counts the rows of the first part.
const fastestRows = `document.querySelectorAll("#strip .bar-row").length`

// A row of the first part has units, and counts warnings.
func TestFastest(t *testing.T) {
	b := newTab(t)
	b.open(pageOf()(t))
	row := eval[string](b, `document.querySelector("#strip .bar-row").innerText`)
	require.Regexp(t, `95% [0-9.]+ to [0-9.]+ M op/s `, row)
	require.Regexp(t, ` 1 warning$`, row)
	require.NotContains(t, eval[string](b, `document.body.innerText`), "doubt")
}

// The page fits a phone, a sheet of paper, and a narrow window.
func TestNarrowPrintAndDark(t *testing.T) {
	b := newTab(t)
	b.open(pageOf()(t))
	for _, width := range []int64{320, 390, 794, 1100} {
		b.do(chromedp.EmulateViewport(width, 800))
		b.await(
			fmt.Sprintf(
				`window.innerWidth === %d && [...document.querySelectorAll("#main .uplot canvas")].every((u) => u.getBoundingClientRect().right <= %d)`, width, width))
		require.Empty(t, eval[string](b, overflow), "%d wide", width)
	}
	b.do(chromedp.EmulateViewport(390, 800))
	eval[bool](b, `location.hash = "cell-17"; true`)
	b.await(`!document.getElementById("page").hidden`)
	b.await(
		`[...document.querySelectorAll("#page .uplot canvas")].every((u) => u.getBoundingClientRect().right <= 390)`)
	require.Empty(t, eval[string](b, overflow), "the page of a cell")
	eval[bool](b, `location.hash = "back"; true`)
	b.await(`document.getElementById("page").hidden`)

	background := `getComputedStyle(document.body).backgroundColor`
	b.media("", "prefers-color-scheme", "light")
	light := eval[string](b, background)
	b.media("", "prefers-color-scheme", "dark")
	b.await(fmt.Sprintf(`%s !== %q`, background, light))
	require.Empty(t, eval[string](b, contrasts), "dark")
	// The colours change after the browser has measured the page for printing.
	eval[bool](b,
		`document.querySelectorAll("canvas").forEach((c) => { c.dataset.stays = "yes"; }); true`)
	pixels := `document.querySelector("#spectrum canvas").toDataURL()`
	before := eval[string](b, pixels)
	b.media("print", "prefers-color-scheme", "dark")
	b.await(pixels + " !== " + strconv.Quote(before))
	require.True(t,
		eval[bool](b, `[...document.querySelectorAll("canvas")].every((c) => c.dataset.stays)`))
	b.do(chromedp.EmulateViewport(700, 900))
	b.await(`getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)"`)
	b.await(
		`[...document.querySelectorAll("#main .uplot canvas")].every((u) => u.getBoundingClientRect().right <= 701)`)
	require.Empty(t, eval[string](b, overflow), "in print")
	require.Equal(t, "none", eval[string](b,
		`getComputedStyle(document.getElementById("filters")).display`))
	require.Empty(t, eval[string](b, contrasts), "print")
	b.media("", "prefers-color-scheme", "light")
	require.Empty(t, eval[string](b, contrasts), "light")
	printed, err := chromedp.Run(b.ctx, chromedp.PrintToPDF(chromedp.PDFPrintBackground()))
	require.NoError(t, err)
	require.True(t, hasPrefixAny(string(printed), "%PDF"))
}

// contrasts lists text with a contrast below 4.5 to 1, the minimum of WCAG.
const contrasts = `(() => {
  const channels = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m; };
  const light = (m) => { const [r, g, b] = m.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => {
    for (; e; e = e.parentElement) { const c = channels(getComputedStyle(e).backgroundColor); if (c) return c; }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length || e.closest("script, style, title, .off, noscript")) continue;
    const s = getComputedStyle(e), a = light(channels(e.namespaceURI.endsWith("svg") ? s.fill : s.color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(e.tagName + "." + e.getAttribute("class") + " " + e.textContent.slice(0, 20) + " " + ratio.toFixed(2));
  }
  return [...new Set(bad)].slice(0, 6).join("; ");
})()`

// No text of a result file becomes markup in the browser.
func TestHostileNamesInBrowser(t *testing.T) {
	b := newTab(t)
	b.open(rendered(t, build(t, hostileSet(t), hostileSet(t))))
	clean := func(where string) {
		t.Helper()
		eval[bool](b, everyFold)
		b.await(
			`[...document.querySelectorAll("details.table[open]")].every((d) => d.dataset.filled)`)
		require.Equal(t, "undefined", eval[string](b, `typeof hacked`), where)
		require.Zero(t,
			eval[int](b, `document.querySelectorAll("img, [onload], [onerror], iframe").length`),
			where)
	}
	clean("overview")
	eval[bool](b, `document.querySelector("#curves .chart").focus(); true`)
	b.press(kb.ArrowRight)
	b.await(`document.getElementById("tip").innerText.includes("<script>hacked=1")`)
	for cell := range eval[int](b, `report.doc.cells.label.length`) {
		eval[bool](b, fmt.Sprintf(`location.hash = "cell-%d"; true`, cell))
		b.await(
			fmt.Sprintf(
				`location.hash === "#cell-%d" && document.querySelector("#page h2")?.textContent === labelOf(%d)`, cell, cell))
		clean("cell")
	}
}

// Two sets, and three sets of which one cannot be compared.
func TestSeveralSetsInBrowser(t *testing.T) {
	old, new := fakeSet(t, loads(), 6, 1), fakeSet(t, loads(), 6, 1.3)
	old.Source, new.Source = "results/v1", "results/v2"
	b := newTab(t)
	b.open(rendered(t, build(t, old, new)))
	require.Equal(t, 12, eval[int](b, fastestRows), "of the newest set")
	require.Positive(t,
		eval[int](b, `document.querySelectorAll("#changes .bar-row[data-c]").length`))
	require.Regexp(t, `v1 → v2: 108 AMBIGUOUS of 108 comparisons`,
		eval[string](b, `document.querySelector(".changed").innerText`))
	require.Equal(t, "v2, v1", eval[string](b,
		`[...document.querySelectorAll(".meta .set")].map((s) => s.textContent).join(", ")`))
	require.Regexp(t, `^v2`, eval[string](b, `document.querySelector("#heat caption").innerText`))
	b.do(chromedp.Click(`#filters input[name=series][value="0"]`))
	b.await(`/v1 → v2: (\d+) AMBIGUOUS of \1 comparisons/.exec(
		document.querySelector(".changed").innerText)?.[1] < 108`)
	b.do(chromedp.Click(`#reset`))
	eval[bool](b, everyFold)
	b.await(`document.querySelector("#changes-table tbody tr") !== null`)
	b.do(chromedp.Click(`#filters input[name=sets][value="0"]`))
	b.await(`document.getElementById("shown").textContent === "30 of 60 cells"`)
	require.Equal(t, 12, eval[int](b, fastestRows))
	require.Zero(t, eval[int](b, `document.querySelectorAll(".changed").length`))
	b.do(chromedp.EmulateViewport(390, 800))
	b.await(
		`window.innerWidth === 390 && [...document.querySelectorAll("#main .uplot canvas")].every((u) => u.getBoundingClientRect().right <= 390)`)
	require.Empty(t, eval[string](b, overflow))
}

// The legend of a scaling chart has each transport once, and configurations without what all share.
func TestLegendOfScaling(t *testing.T) {
	old, new := fakeSet(t, loads(), 6, 1), fakeSet(t, loads(), 6, 1.3)
	old.Source, new.Source = "results/v1", "results/v2"
	b := newTab(t)
	b.open(rendered(t, build(t, old, new)))
	require.Equal(t, []string{"copyrpc (soft)", "shm (memfd)", "ucxam (sysv)", "v2 value_size=32",
		"v2 value_size=4KiB", "v1 value_size=32", "v1 value_size=4KiB", "floor of each, above it"},
		eval[[]string](b, `(() => {
			const figure = [...document.querySelectorAll("#scaling figure")].find(
				(f) => f.textContent.includes("Calls in flight"));
			return [...figure.querySelectorAll(".legend li")].map((l) => l.textContent);
		})()`))
}

// Charts of lines draw one of three sets, until the reader wants all.
func TestLinesOfSeveralSets(t *testing.T) {
	var sets []*set.Set
	for i, name := range []string{"v1", "v2", "v3"} {
		s := fakeSet(t, loads(), 6, 1+0.3*float64(i))
		s.Source = "results/" + name
		sets = append(sets, s)
	}
	b := newTab(t)
	b.open(rendered(t, build(t, sets...)))
	drawn := func(name string, points, lines int) {
		t.Helper()
		choice := `document.querySelector("#curves-closed select[name=drawn-set]")`
		if name != "v3" {
			eval[bool](b, fmt.Sprintf(`(() => { const s = %s; s.value = %q; s.dispatchEvent(new Event("change")); return true; })()`, choice, name))
		}
		require.Equal(t, name, eval[string](b, choice+".value"))
		require.Equal(t, strconv.Itoa(points), eval[string](b,
			`/(\d+) point/.exec(document.querySelector("#curves-closed .chart").getAttribute("aria-label"))[1]`))
		b.await(fmt.Sprintf(
			`document.querySelectorAll("#spectrum-figure .legend li").length === %d`, lines))
	}
	drawn("v3", 21, 3)
	drawn("v1", 21, 3)
	drawn("all sets", 63, 9)
	b.do(chromedp.Click(`#filters input[name=sets][value="0"]`))
	b.await(`document.querySelector("select[name=drawn-set]") === null`)
}

// A set may have one cell, so that no option varies, or a cell that never ran.
func TestSmallSetsInBrowser(t *testing.T) {
	failed := set.New()
	failed.Cells = []set.Cell{{Config: map[string]string{"transport": "shm"}, Status: set.Failed,
		Reason: "it crashed", Environment: -1, Samples: map[string][]float64{}}}
	for name, s := range map[string]*set.Set{"one": fakeSet(t, loads()[:1], 2, 1),
		"failed": failed} {
		t.Run(name, func(t *testing.T) {
			b := newTab(t)
			b.open(rendered(t, build(t, s)))
			require.Equal(t, "1 of 1 cell",
				eval[string](b, `document.getElementById("shown").textContent`))
			eval[bool](b, everyFold)
			eval[bool](b, `location.hash = "cell-0"; true`)
			b.await(`document.querySelector("#page h2") !== null`)
		})
	}
}

// The committed results are shown without messages in the console.
func TestCommittedResultsInBrowser(t *testing.T) {
	b := newTab(t)
	b.open(rendered(t, build(t, committed(t))))
	require.Equal(t, 33, eval[int](b, fastestRows),
		"one for each transport under each of four loads, and one for kv with track=matched")
	everyPage(b)
}

// everyPage opens all tables of the overview and of each cell's page, and fails if a value was set
// as text without being formatted.
func everyPage(b *tab) {
	b.Helper()
	b.await(`(async () => {
		window.unformatted = [];
		const look = (where) => {
			for (const d of document.querySelectorAll("details")) { d.open = true; d.dispatchEvent(new Event("toggle")); }
			const found = /\[object |undefined|NaN/.exec(document.body.innerText);
			if (found) window.unformatted.push(where + ": " + document.body.innerText.slice(Math.max(0, found.index - 40), found.index + 40));
		};
		look("overview");
		for (let cell = 0; cell < report.doc.cells.label.length; cell++) {
			await openCell(cell);
			look(labelOf(cell));
		}
		show(false);
		return true;
	})()`)
	require.Empty(b, eval[string](b, `window.unformatted.slice(0, 3).join("; ")`))
}
