package present

import (
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/base/config"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// classes writes the metrics of each class of traffic: with all classes at once, alone, and the former
// over the latter.
func classes(w io.Writer, r *result.Result) {
	list := result.FiguresOf(r.Config.Classes, func(name string) (result.Metric, bool) {
		m, known := r.Summary[name]
		return m, known
	})
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "the classes of traffic: with the others, alone, and how much worse they are with the others")
	t := newTable(w, "class", "metric", ">together", ">alone", ">slowdown")
	for _, f := range list {
		t.AppendRow(table.Row{f.Class, f.Metric, figure(f.Together), figure(f.Alone), figure(f.Slowdown)})
	}
	t.Render()
	fmt.Fprintln(w)
}

func figure(m *result.Metric) string {
	if m == nil {
		return "-"
	}
	return format.Value(*m)
}

// Traffic writes what the classes of traffic of each measured cell did to each other, and how fair its
// pattern of traffic was. It writes nothing if no cell has either.
func Traffic(w io.Writer, s *set.Set) {
	loads := loadsOf(s.Cells)
	var classed, patterned []*set.Cell
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Status != set.Measured {
			continue
		}
		if len(c.Samples[result.JainClients])+len(c.Samples[result.JainPeers])+len(c.Samples[result.StormRate]) > 0 {
			patterned = append(patterned, c)
		}
		if c.Config["class"] != "" {
			classed = append(classed, c)
		}
	}
	byLoad := func(a, b *set.Cell) int { return loads.position(a) - loads.position(b) }
	slices.SortStableFunc(classed, byLoad)
	slices.SortStableFunc(patterned, byLoad)
	shown := compare.ShownOf(s)
	writeClasses(w, shownCells(classed, shown), loads)
	if len(patterned) == 0 {
		return
	}
	fmt.Fprintln(w, "\npatterns of traffic; Jain: 1 if all have the same rate, 1/n if one of n has everything;\n"+
		"straggler: p50 of the slowest pair of ranks over that of the median pair:")
	writeRows(w, shownCells(patterned, shown), []column{
		{"load", loads.name}, {"transport", (*set.Cell).Transport},
		{">Jain of clients", metricColumn(result.JainClients, number)},
		{">Jain of ranks", metricColumn(result.JainPeers, number)},
		{">straggler", metricColumn(result.StragglerRatio, format.Value)},
		{">p50", metricColumn(result.LatencyP50, format.Value)},
		{">p99", metricColumn(result.LatencyP99, format.Value)},
		{">connections", metricColumn(result.StormRate, format.Value)},
		{">kept up", percentColumn(result.StormKept)},
		{">connect", metricColumn(result.StormConnectP50, format.Value)},
		{">connect p99", metricColumn(result.StormConnectP99, format.Value)},
		{">close", metricColumn(result.StormClose, format.Value)},
	})
}

// classColumns are the columns of a class of traffic in the table of a set.
var classColumns = []string{"class", ">throughput", ">slowdown", ">p50", ">slowdown", ">p99", ">slowdown", ">in time", ">alone"}

// writeClasses writes a row for each class of each cell.
func writeClasses(w io.Writer, cells []*set.Cell, loads loads) {
	var rows []table.Row
	for _, c := range cells {
		var list config.Classes
		if list.Set(c.Config["class"]) != nil {
			continue // of a newer version
		}
		of := map[string]map[string]result.ClassFigures{}
		for _, f := range result.FiguresOf(list, c.Metric) {
			if of[f.Class] == nil {
				of[f.Class] = map[string]result.ClassFigures{}
			}
			of[f.Class][f.Metric] = f
		}
		for _, class := range list {
			figures, known := of[class.Name]
			if !known {
				continue
			}
			p50, p99 := figures[result.LatencyP50], figures[result.LatencyP99]
			if class.Rate != 0 {
				p50, p99 = figures[result.ResponseP50], figures[result.ResponseP99]
			}
			rate, inTime := figures[result.Throughput], figures[result.SLOAttainment]
			rows = append(rows, table.Row{
				loads.name(c), c.Transport(), class.Name, figure(rate.Together), figure(rate.Slowdown), figure(p50.Together), figure(p50.Slowdown),
				figure(p99.Together), figure(p99.Slowdown), portionOf(inTime.Together), portionOf(inTime.Alone),
			})
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintln(w, "\nclasses of traffic, all at once; slowdown: how many times worse than alone; times of open loops are response times;\n"+
		"in time: the share that met its objective, and alone:")
	t := newTable(w, append([]string{"load", "transport"}, classColumns...)...).wrap(24, "load")
	for _, row := range rows {
		t.AppendRow(row)
	}
	t.Render()
}

func portionOf(m *result.Metric) string {
	if m == nil {
		return "-"
	}
	return portion(m.Median)
}
