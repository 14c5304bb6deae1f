package report

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// volume is the environment variable that enables the test with many cells, and is their number.
const volume = "REPORT_TEST_VOLUME"

// The page is usable with 5,000 cells. Its log has the time that it takes to draw.
func TestVolume(t *testing.T) {
	if os.Getenv(volume) == "" {
		t.Skip("it makes many cells, which takes minutes: set " + volume + "=5000, their number")
	}
	many, err := strconv.Atoi(os.Getenv(volume))
	require.NoError(t, err)
	s := set.New()
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; len(s.Cells) < many; i++ {
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
	b.await(fmt.Sprintf(`document.getElementById("shown").textContent.split(" ")[0] < %d`,
		many*7/10))
	t.Logf("filtered in %v", time.Since(began))
	began = time.Now()
	eval[bool](b, fmt.Sprintf(`location.hash = "cell-%d"; true`, many-1))
	b.await(fmt.Sprintf(`document.querySelector("#page h2")?.textContent === labelOf(%d)`, many-1))
	t.Logf("a cell's page in %v", time.Since(began))
	require.Empty(t, eval[string](b, overflow))
}
