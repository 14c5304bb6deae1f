package report

import (
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// volume is the variable that asks for the test with many cells.
const volume = "TRANSPORTBENCH_REPORT_VOLUME"

// The page is usable with 5,000 cells.
func TestVolume(t *testing.T) {
	if os.Getenv(volume) == "" {
		t.Skip("it makes 5,000 cells, which takes minutes: set " + volume + "=1")
	}
	var list []load
	for i := 0; len(list) < 5000; i++ {
		for _, l := range loads() {
			l.inFlight += i
			list = append(list, l)
		}
	}
	s := fakeSet(t, list[:5000], 10, 1)
	began := time.Now()
	p := build(t, s)
	t.Logf("made in %v", time.Since(began))
	page := rendered(t, p)
	t.Logf("%d bytes", len(page))
	b := newTab(t)
	began = time.Now()
	b.open(page)
	t.Logf("drawn in %v", time.Since(began))
	began = time.Now()
	b.do(chromedp.Click(`#filters input[name=series][value="0"]`))
	b.await(`document.getElementById("shown").textContent.startsWith("33")`)
	t.Logf("filtered in %v", time.Since(began))
	began = time.Now()
	eval[bool](b, `location.hash = "cell-4321"; true`)
	b.await(`document.querySelector("#page h2")?.textContent === labelOf(4321)`)
	t.Logf("a cell's page in %v", time.Since(began))
	require.Empty(t, eval[string](b, overflow))
}
