package report

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
)

// TestPicture makes the README's picture, the top of the report of the committed results.
func TestPicture(t *testing.T) {
	if !*doctest.Update {
		t.Skip(
			"it draws docs/report.png: run go test ./core/lab/doc/report -run TestPicture -update")
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // may have another calibration
	p, err := Build(t.Context(), []*set.Set{committed(t)}, Options{Compare: compare.Defaults(),
		Calibrations: new(calibration.Finder).OfSets})
	require.NoError(t, err)
	b := newTab(t)
	b.do(chromedp.EmulateViewport(1100, 790))
	b.open(rendered(t, p))
	b.picture("report.png")
}

// TestPictureOfReplay makes the picture of docs/your-own-load.md, the charts of a replayed trace:
// results of run --transport shm,erpc,tcpx,sockets --replay FILE.
func TestPictureOfReplay(t *testing.T) {
	results := os.Getenv("REPLAYED")
	if !*doctest.Update || results == "" {
		t.Skip("it draws docs/replay.png of results that REPLAYED names: " +
			"run go test ./core/lab/doc/report -run TestPictureOfReplay -update")
	}
	s, err := set.Load(results)
	require.NoError(t, err)
	objective, err := analyze.ParseObjective("p99<1ms")
	require.NoError(t, err)
	p, err := Build(t.Context(), []*set.Set{s}, Options{Compare: compare.Defaults(),
		Objective: &objective})
	require.NoError(t, err)
	b := newTab(t)
	b.do(chromedp.EmulateViewport(1000, 700))
	b.open(rendered(t, p))
	height := eval[int](b, `(() => { for (const e of document.querySelectorAll("header, footer, `+
		`#filters, main > section:not(#replays), #replays details")) e.remove(); `+
		`return document.body.scrollHeight; })()`)
	b.do(chromedp.EmulateViewport(1000, int64(height)))
	b.picture("replay.png")
}

// picture writes what the tab shows to a file of the documents.
func (b *tab) picture(name string) {
	b.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b, err)
	require.NoError(b, os.WriteFile("../../../../docs/"+name, picture, 0o644))
}
