package experiment

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/set"
)

// The time that is planned for the windows of the committed sets is the time that they took, within
// 20%, and so is that of each load of more than two ranks. The set with reference tools is left
// out, because the tools of this machine decide there.
func TestCommittedSetsTookTheTimePlanned(t *testing.T) {
	for _, path := range []string{doctest.Standard, doctest.Latency, doctest.Services,
		doctest.Curves} {
		s, err := set.Load(filepath.Join("../../..", path))
		require.NoError(t, err)
		type window struct {
			at      time.Time
			load    string
			planned float64
		}
		var windows []window
		planned := 0.0
		for _, c := range append(s.Cells, s.Reference...) {
			if c.Status != set.Measured {
				continue
			}
			cell := Cell{Config: *c.Run}
			one := cell.Expected(runner.Beside{}).Seconds()
			load := ""
			if c.Run.Ranks > 2 {
				load = fmt.Sprintf("%d ranks", c.Run.Ranks)
			}
			for _, w := range c.Windows {
				windows = append(windows, window{w.StartedAt, load, one})
				planned += one
			}
		}
		slices.SortFunc(windows, func(a, b window) int { return a.at.Compare(b.at) })
		last := len(windows) - 1
		took := windows[last].at.Sub(windows[0].at).Seconds()
		require.InEpsilon(t, took, planned, 0.2, path)

		// From the window before to the one after pass one run, and about half of those two.
		runs, plans := map[string][]float64{}, map[string]float64{}
		for i, w := range windows[1:last] {
			before, after := windows[i], windows[i+2]
			runs[w.load] = append(runs[w.load],
				after.at.Sub(before.at).Seconds()-(before.planned+after.planned)/2)
			plans[w.load] = w.planned
		}
		delete(runs, "")
		for load, took := range runs {
			require.InEpsilon(t, record.Median(took), plans[load], 0.2, "%s: %s", path, load)
		}
	}
}
