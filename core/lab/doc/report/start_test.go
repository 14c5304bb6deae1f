package report

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

func TestStartOnThePage(t *testing.T) {
	p := build(t, fakeSet(t, loads()[:2], 2, 1))
	phase := p.phases[len(p.phases)-1]
	require.Equal(t, cellpage.StartTitle, phase.Title)
	var names, texts []string
	for _, part := range phase.Legend {
		names = append(names, part.Name)
	}
	for _, bar := range phase.Loads[1].Rows[0].Bars {
		texts = append(texts, bar.Text)
	}
	require.Equal(t, []string{"open", "register", "connect", "first call", "close"}, names)
	require.Equal(t, []string{"open: 1.50 ms, 73.2%", "open: register: 500 us, 24.4%",
		"connect: 300 us, 14.6%", "first call: 50.0 us, 2.44%", "close: 200 us, 9.76%"}, texts)
	require.InDelta(t, 100, phase.Loads[1].Rows[0].At, 1e-9)
	b := newTab(t)
	b.open(rendered(t, p))
	require.Contains(t, eval[string](b, `document.getElementById("phases-table").innerText`),
		cellpage.StartTitle)
	eval[bool](b, `(() => { location.hash = "#cell-1"; return true; })()`)
	b.await(`document.getElementById("page").innerText.includes("What a start takes")`)
	text := eval[string](b, `document.getElementById("page").innerText`)
	require.Contains(t, text, "open: register")
	require.Regexp(t,
		`Path of the bytes of rank 0(?s:.*)carrier\s+tcp\s+facts\.gro\s+<b>on</b>\s+interface\s+eth7`, text)
}

// A set with probes of the transport alone and a mesh has its layers as bars.
func TestLayersOnThePage(t *testing.T) {
	s := fakeSet(t, loads()[:1], 2, 1)
	for i := range s.Cells {
		s.Cells[i].Samples[result.Bare], s.Cells[i].Samples[result.LatencyP50] = []float64{5e6,
			5e6}, []float64{8e6, 8e6}
	}
	mesh := s.Cells[0]
	run := *mesh.Run
	run.Topology, run.RemoteShare = config.TopologyMeshDirect, 1
	mesh.Run, mesh.Samples = &run, map[string][]float64{result.Throughput: {1e3, 1e3}}
	mesh.Config = maps.Clone(mesh.Config)
	mesh.Config["topology"], mesh.Config["remote_share"] = run.Topology, "1"
	s.Cells = append(s.Cells, mesh)
	p := build(t, s)
	at := slices.IndexFunc(p.phases, func(b breakdown) bool {
		return b.Title == "Layers, one call in flight"
	})
	require.GreaterOrEqual(t, at, 0)
	bars := p.phases[at].Loads[0].Rows[0].Bars
	require.Equal(t, "client-server: 3.00 ms, 37.5%", bars[len(bars)-1].Text)
	require.Contains(t, bars[len(bars)-2].Text, "transport, without the runtime: ")
}

// Cells with different numbers of connections are a curve of the time to make them.
func TestConnectionsInBrowser(t *testing.T) {
	dir := t.TempDir()
	for i, clients := range []int{1, 10, 32} {
		for j, transport := range []string{"shm", "copyrpc"} {
			r := fake(t, load{transport, "client-server", 1, 32, 0}, 2, 1, uint64(10*i+j))
			r.Config.Clients, r.Config.Daemons = clients, clients
			for k := range r.Launches {
				setup := &r.Launches[k].Setup
				setup.Ranks = slices.Clone(setup.Ranks)
				setup.Ranks[1].Connections = uint64(clients * clients)
				r.Repeats[k].Samples[result.SetupConnectAll] = float64(1000 * clients * clients)
			}
			r.Summary = result.SummarizeRepeats(r.Repeats)
			put(t, filepath.Join(dir, fmt.Sprintf("%d%d.json", i, j)), r)
		}
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	b := newTab(t)
	b.open(rendered(t, build(t, s)))
	lines := `scalingLines(report.doc.scalings.find((s) => s.title.startsWith("Connections")))`
	require.Equal(t, 2, eval[int](b, lines+".length"), "a line for each transport, without a floor")
	require.Equal(t, []float64{1, 100, 1024, 1000, 100_000, 1_024_000},
		eval[[]float64](b, `(() => { const p = `+lines+
			`[0].points; return [...p.map((q) => q.x), ...p.map((q) => q.y)]; })()`))
	text := eval[string](b, `document.getElementById("scaling").innerText`)
	require.Contains(t, text, "Connections of a rank against the time to make them")
	require.NotEmpty(t,
		eval[string](b,
			`[...document.querySelectorAll("#scaling figure")].find((f) => f.textContent.includes("Connections of")).querySelector("canvas") ? "drawn" : ""`))
}

// Cells with different networks are curves over the loss and the delay.
func TestNetworksInBrowser(t *testing.T) {
	dir := t.TempDir()
	for i, network := range []string{"none", "loss=1%", "loss=10%", "loss=1%,delay=500us",
		"delay=500us"} {
		r := fake(t, load{"erpc", "client-server", 1, 32, 0}, 2, 1, uint64(i))
		require.NoError(t, r.Config.Network.Set(network))
		r.Config.Options = map[string]string{"bind": "10.79.0.0/24"}
		if i == 0 {
			r.Config.Options["bind"] = "127.0.0.1"
		}
		for k := range r.Repeats {
			r.Repeats[k].Samples[result.LatencyP99] = float64(1000 * (i + 1))
			r.Repeats[k].Samples[result.Goodput] = float64(1e6 / (i + 1))
		}
		r.Summary = result.SummarizeRepeats(r.Repeats)
		put(t, filepath.Join(dir, fmt.Sprintf("%d.json", i)), r)
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	b := newTab(t)
	b.open(rendered(t, build(t, s)))
	points := func(title string) [][]float64 {
		return eval[[][]float64](b, `scalingLines(report.doc.scalings.find((s) => s.title === "`+
			title+`")).map((l) => [...l.points.map((p) => p.x), ...l.points.map((p) => p.y)])`)
	}
	require.ElementsMatch(t, [][]float64{{0, 1, 10, 1000, 2000, 3000}, {0, 1, 5000, 4000}},
		points("Loss against p99"), "with no delay, and with 500 us")
	require.ElementsMatch(t, [][]float64{{0, 0.5, 1e6, 2e5}, {0, 0.5, 5e5, 2.5e5}},
		points("Delay against goodput"), "without loss, and with 1%")
	require.Contains(t, eval[string](b, `document.getElementById("scaling").innerText`),
		"Loss against p99")
}
