package report

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/set"
)

// All loads of the newest set are drawn, and no load of another in part.
func TestBarsOfWholeLoads(t *testing.T) {
	const loads, transports = 5, 11
	b := builder{sets: make([]*set.Set, 2), names: []string{"old", "new"},
		doc: &document{Series: []series{{Name: "shm"}}}}
	var l breakdown
	c := &b.doc.Cells
	for cell := range 2 * loads * transports {
		c.Set = append(c.Set, 1-cell/(loads*transports))
		c.Load = append(c.Load, fmt.Sprint("load ", cell/transports%loads))
		c.Label, c.Own, c.Series = append(c.Label, ""), append(c.Own, ""), append(c.Series, 0)
		l.cells = append(l.cells, cell)
		l.parts = append(l.parts, analyze.Breakdown{Whole: 1})
	}
	b.drawBars(&l)
	require.Len(t, l.Loads, loads, "a sixth does not fit")
	require.Equal(t, "new: load 4", l.Loads[4].Load)
	require.Len(t, l.Loads[4].Rows, transports)
	require.Equal(t, loads*transports, l.More)
}
