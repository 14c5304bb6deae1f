package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aclements/go-moremath/stats"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// yardstick is what a version's measurements of a cell are judged by: the scatter over the repeats
// of a time and of its ratios, the share of the harness, and the warnings.
type yardstick struct {
	cell                   *set.Cell
	time, ratio, byLibrary []float64 // of each repeat; nil if unknown
	harness                float64
	warnings               int
}

// newYardstick takes the time that the tables compare: p50 with one call in flight, else the time
// per operation. Before 2.0 both were divided by the floor of a round trip, which for ucxam was
// that of its library, and the harness was measured once.
func newYardstick(c *set.Cell) yardstick {
	y := yardstick{cell: c, time: c.Samples[result.LatencyP50], ratio: c.Samples[result.FloorRatio],
		byLibrary: c.Samples[result.LibraryRatio]}
	if c.Config["in_flight"] != "1" {
		y.time, y.ratio = nil, c.Samples[result.OpTimeRatio]
		for _, rate := range c.Samples[result.Throughput] {
			y.time = append(y.time, 1e9/rate)
		}
	}
	if shares := c.Samples[result.HarnessShare]; len(shares) > 0 {
		y.harness = middle(shares)
	} else {
		y.harness = middle(c.Samples[result.HarnessOverhead]) / middle(y.time)
		floors := c.Samples[result.Floor]
		if len(floors) == 0 {
			floors = c.Samples[result.Library]
		}
		y.ratio, y.byLibrary = nil, nil
		for i, floor := range floors {
			y.ratio = append(y.ratio, y.time[i]/floor)
		}
	}
	for _, w := range c.Warnings {
		if w.Severity == result.Warning && w.Scope != result.ScopeMachine {
			y.warnings++
		}
	}
	return y
}

func middle(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return result.Summarize("", values).Median
}

// scatter is the standard deviation of the logarithms.
func scatter(values []float64) string {
	if len(values) < 2 {
		return "-"
	}
	logs := make([]float64, len(values))
	for i, v := range values {
		logs[i] = math.Log(v)
	}
	return fmt.Sprintf("%.2f", stats.StdDev(logs))
}

// renderYardsticks compares what two versions say of the same loads: how far figures scatter, how
// much of them is the harness, and how they rank the transports within one state of the machine.
func renderYardsticks(oldDir string, old *set.Set, newDir string, new *set.Set) []byte {
	a, b := versionOf(oldDir), versionOf(newDir)
	loads := loadsOf(new.Cells)
	load := func(c *set.Cell) string {
		return strings.Join([]string{c.Config["profile"], c.Config["in_flight"], c.Config["track"]},
			" ")
	}
	before := map[string]yardstick{}
	for i := range old.Cells {
		c := &old.Cells[i]
		before[load(c)+c.Transport()] = newYardstick(c)
	}
	var rows []yardstick
	for i := range new.Cells {
		rows = append(rows, newYardstick(&new.Cells[i]))
	}
	slices.SortStableFunc(rows, func(x, y yardstick) int {
		return cmp.Or(cmp.Compare(loads.position(x.cell), loads.position(y.cell)),
			cmp.Compare(middle(x.time), middle(y.time)))
	})
	var out bytes.Buffer
	fmt.Fprintf(&out, "```text\n%s (old) and %s (new): scatter over all repeats of the time, of "+
		"its ratio to the floor and to the library; harness over all repeats\n", a, b)
	t := doc.NewTable("load", "transport", ">time old", ">new", ">p50 or op/floor old", ">new",
		">x library", ">harness old", ">new", ">warnings old", ">new")
	both := map[string][]yardstick{} // new ones, by load
	var order []string
	for _, y := range rows {
		row := []any{loads.name(y.cell), y.cell.Transport()}
		key := load(y.cell)
		was, known := before[key+y.cell.Transport()]
		text := func(of func(yardstick) string) {
			if known {
				row = append(row, of(was), of(y))
			} else {
				row = append(row, "-", of(y))
			}
		}
		text(func(y yardstick) string { return scatter(y.time) })
		text(func(y yardstick) string { return scatter(y.ratio) })
		row = append(row, scatter(y.byLibrary))
		text(func(y yardstick) string { return fmt.Sprintf("%.0f%%", 100*y.harness) })
		text(func(y yardstick) string { return fmt.Sprint(y.warnings) })
		t.Row(row...)
		if known {
			if both[key] == nil {
				order = append(order, key)
			}
			both[key] = append(both[key], y)
		}
	}
	write(&out, &doc.Doc{Blocks: []doc.Block{t}})
	fmt.Fprintln(&out, "\norder of the transports, the best first, in the state in which all of "+
		"a load have most windows:")
	t = doc.NewTable("load", "by", "order")
	for _, key := range order {
		var oldCells, newCells []*set.Cell
		for _, y := range both[key] {
			oldCells, newCells = append(oldCells, before[key+y.cell.Transport()].cell),
				append(newCells, y.cell)
		}
		oldIn, inOld := within(old, oldCells)
		newIn, inNew := within(new, newCells)
		name, list := loads.name(newCells[0]), newIn
		was := func(y yardstick) yardstick {
			return oldIn[slices.IndexFunc(oldIn,
				func(o yardstick) bool { return o.cell.Transport() == y.cell.Transport() })]
		}
		for _, by := range []struct {
			name  string
			value func(yardstick) float64
			show  func(float64) string
		}{
			{"time " + a + inOld, func(y yardstick) float64 { return middle(was(y).time) },
				format.Time},
			{"time " + b + inNew, func(y yardstick) float64 { return middle(y.time) }, format.Time},
			{"ratio " + a + inOld, func(y yardstick) float64 { return middle(was(y).ratio) },
				format.Digits},
			{"ratio " + b + inNew, func(y yardstick) float64 { return middle(y.ratio) },
				format.Digits},
		} {
			slices.SortStableFunc(list, func(x, y yardstick) int {
				return cmp.Compare(by.value(x), by.value(y))
			})
			var names []string
			for _, y := range list {
				names = append(names, y.cell.Transport()+" "+by.show(by.value(y)))
			}
			t.Row(name, by.name, strings.Join(names, ", "))
		}
	}
	write(&out, &doc.Doc{Blocks: []doc.Block{t}})
	fmt.Fprintln(&out, "```")
	return out.Bytes()
}

// within returns the yardsticks of cells of one load in their common state of the machine, and that
// state as an addition to a version.
func within(s *set.Set, cells []*set.Cell) (list []yardstick, addition string) {
	states := compare.FindStates(s)
	common := states.Common(cells)
	for _, c := range cells {
		list = append(list, newYardstick(states.Within(c, common)))
	}
	if common != "" {
		addition = ", " + common
	}
	return list, addition
}
