package report

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The page of a cell draws how much its classes of traffic slow each other, and lists its pairs of
// ranks.
func TestTrafficInBrowser(t *testing.T) {
	dir := t.TempDir()
	classed := fake(t, load{"shm", "client-server", 1, 32, 0}, 2, 1, 1)
	require.NoError(t, classed.Config.Classes.Set("bulk:1KiB;rpc:64B,slo=50us"))
	patterned := fake(t, load{"copyrpc", "client-server", 1, 32, 0}, 2, 1, 2)
	require.NoError(t, patterned.Config.Traffic.Set("incast:2"))
	for i := range 2 {
		for name, v := range map[string]float64{
			"bulk.throughput": 1e3, "bulk.alone.throughput": 2e3, "bulk.slowdown.throughput": 2,
			"rpc.latency_p99": 80e3, "rpc.alone.latency_p99": 20e3, "rpc.slowdown.latency_p99": 4,
			"rpc.slo_attainment": 0.25, "rpc.alone.slo_attainment": 0.75,
		} {
			classed.Repeats[i].Samples[name] = v
		}
		for rank, n := range map[int]uint64{1: 1000, 2: 3000} {
			patterned.Repeats[i].Ranks = append(patterned.Repeats[i].Ranks,
				record.Report{Rank: rank, Clients: []record.ClientReport{{
					ElapsedNS: 1e9, Reads: n,
					Peers: []record.PeerReport{
						{Count: n, Latency: record.TimingReport{Histogram: oneTime(), MeanNS: 150,
							Samples: 1}}},
				}}})
		}
	}
	for i, r := range []*result.Result{classed, patterned} {
		r.Summary = result.SummarizeRepeats(r.Repeats)
		put(t, filepath.Join(dir, string(rune('a'+i))+".json"), r)
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	p := build(t, s)
	b := newTab(t)
	b.open(rendered(t, p))
	show := func(transport string) string {
		eval[bool](b,
			`(() => { location.hash = "#cell-" + report.doc.cells.label.findIndex((l) => l.startsWith("`+transport+`")); return true; })()`)
		b.await(`document.querySelector("#page h2")?.innerText.startsWith("` + transport + `")`)
		return eval[string](b, `document.getElementById("page").innerText`)
	}
	text := show("shm")
	require.Contains(t, text, "Classes of traffic")
	require.Regexp(t, `rpc\s+latency_p99\s+80\.0 us\s+20\.0 us\s+4\.00`, text)
	require.Regexp(t, `rpc\s+slo_attainment of 50µs\s+0\.250\s+0\.750\s+-`, text)
	require.NotContains(t, text, "Pairs of ranks")

	text = show("copyrpc")
	require.NotContains(t, text, "Classes of traffic")
	require.Regexp(t, `1\s+0\s+1\.00 K op/s\s+25\.0%\s+150 ns`, text)
	require.Regexp(t, `2\s+0\s+3\.00 K op/s\s+75\.0%`, text)
}
