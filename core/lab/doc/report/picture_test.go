package report

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/doctest"
)

// TestPicture makes the README's picture, the top of the report of the committed results.
func TestPicture(t *testing.T) {
	if !*doctest.Update {
		t.Skip(
			"it draws docs/report.png: run go test ./core/lab/doc/report -run TestPicture -update")
	}
	b := newTab(t)
	b.do(chromedp.EmulateViewport(1100, 790))
	b.open(rendered(t, build(t, committed(t))))
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("../../../../docs/report.png", picture, 0o644))
}
