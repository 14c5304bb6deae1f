package report

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

// volume is the environment variable that enables the test with many cells.
const volume = "REPORT_TEST_VOLUME"

// The page is usable with 5,000 cells.
func TestVolume(t *testing.T) {
	if os.Getenv(volume) == "" {
		t.Skip("it makes 5,000 cells, which takes minutes: set " + volume + "=1")
	}
	s := set.New()
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; len(s.Cells) < 5000; i++ {
		for n, l := range loads() {
			l.inFlight += i
			r := fake(t, l, 2, 1, uint64(n))
			require.NoError(t, s.Add(r))
			c := &s.Cells[len(s.Cells)-1]
			c.Results = []*result.Result{r}
			for name, values := range c.Samples { // as many as ten repeats have
				for len(values) < 10 {
					values = append(values, values[0]*(0.95+0.1*random.Float64()))
				}
				c.Samples[name] = values
			}
		}
	}
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
	b.await(`document.getElementById("shown").textContent.split(" ")[0] < 3500`)
	t.Logf("filtered in %v", time.Since(began))
	began = time.Now()
	eval[bool](b, `location.hash = "cell-4321"; true`)
	b.await(`document.querySelector("#page h2")?.textContent === labelOf(4321)`)
	t.Logf("a cell's page in %v", time.Since(began))
	require.Empty(t, eval[string](b, overflow))
}
