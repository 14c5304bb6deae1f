package report

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/base/replay"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Cells that replay a trace are drawn over its time, each transport a line, below its rate.
func TestReplaysInBrowser(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"shm", "copyrpc"} {
		r := fake(t, load{name, "client-server", 16, 32, 1e5}, 2, 1, uint64(i))
		r.Config.Replay = "sha256:0123456789abcdef"
		r.Config.Duration = config.Duration(time.Minute)
		r.Replay = &replay.Part{Summary: replay.Summary{Length: 60 * time.Second,
			Step: 30 * time.Second, Rates: []uint64{1000, 2000}, ByOp: map[string]uint64{},
			Sizes: config.FixedSize(32)}}
		for j := range r.Repeats {
			open := r.Repeats[j].Ranks[1].Clients[0].Open
			for range record.Steps {
				open.Steps = append(open.Steps, open.Response)
			}
			open.Steps[7] = record.TimingReport{Histogram: record.NewHistogram().Encode()}
		}
		put(t, filepath.Join(dir, name+".json"), r)
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	p := build(t, s)
	require.Len(t, p.doc.Replays, 1)
	r := p.doc.Replays[0]
	require.Equal(t, "sha256:0123456789abcdef", r.Load)
	require.Len(t, r.Lines, 2)
	require.Len(t, r.Rates, record.Steps)
	require.Less(t, r.Rates[0], r.Rates[record.Steps-1])
	require.Positive(t, r.Lines[0].P99[0])
	require.Zero(t, r.Lines[0].P99[7])

	b := newTab(t)
	b.open(rendered(t, p))
	text := eval[string](b, `document.getElementById("replays").innerText`)
	require.Contains(t, text, "the worst ")
	require.Equal(t, 2, eval[int](b, `document.querySelectorAll("#replays canvas").length`))
	require.Equal(t, 2*2*(record.Steps-1), eval[int](b, `[...charts].find((c) => `+
		`c.spec.label.startsWith("Response time over")).points.length`))

	objective, err := analyze.ParseObjective("p99<1us")
	require.NoError(t, err)
	p, err = Build(context.Background(), []*set.Set{s}, Options{Compare: compare.Defaults(),
		Objective: &objective})
	require.NoError(t, err)
	within := p.doc.Replays[0].Lines[0].Within
	require.Len(t, within, record.Steps)
	require.Less(t, within[0], 100.0)
	require.Equal(t, 100.0, within[7], "nothing was late")
	require.Contains(t, p.doc.Replays[0].Lines[0].Worst, "within the objective")

	require.Empty(t, build(t, fakeSet(t, loads()[:1], 2, 1)).doc.Replays)
}

// Hand-offs are drawn as shares of the rate in bulk, and filters hide those of a transport.
func TestHandoffsInBrowser(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"shm", "copyrpc"} {
		for _, page := range []int{0, 16} {
			r := fake(t, load{name, "client-server", 12, 32 + page, 0}, 6, 1, uint64(2*i+page))
			r.Config.Profile, r.Config.Handoff = "kvhandoff", "push:512"
			r.Config.Model, r.Config.TokensPerBlock = "llama-3.1-8b", page
			for j := range r.Repeats {
				r.Repeats[j].Samples[result.Goodput] = 1e9 * float64(20-page+i)
				r.Repeats[j].Samples[result.FirstPart+"_p50"] = 2e6
			}
			r.Summary = result.SummarizeRepeats(r.Repeats)
			put(t, filepath.Join(dir, fmt.Sprintf("%s%d.json", name, page)), r)
		}
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	b := newTab(t)
	b.open(rendered(t, build(t, s)))
	rows := func() []string {
		return eval[[]string](b, `[...document.querySelectorAll("#handoffs .bar-row:not(.off)")].`+
			`map((r) => r.innerText.replaceAll("\n", " "))`)
	}
	require.Len(t, rows(), 2)
	require.Contains(t, strings.Join(rows(), "\n"), "20.0% of bulk, first layer after 2.00 ms")
	require.Equal(t, 2, eval[int](b, `document.querySelectorAll("#handoffs .interval").length`))
	eval[bool](b, `[...document.querySelectorAll("#filters input")].find((i) => `+
		`i.parentElement.innerText.trim().startsWith("shm")).click() === undefined`)
	require.Len(t, rows(), 1)
	require.Contains(t, rows()[0], "copyrpc")

	b.open(rendered(t, build(t, fakeSet(t, loads()[:1], 2, 1))))
	require.True(t, eval[bool](b, `document.getElementById("handoffs").hidden`))
}
