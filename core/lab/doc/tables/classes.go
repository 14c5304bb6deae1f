package tables

import (
	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Classes returns the metrics of each class of traffic: with all classes at once, alone, and the
// former over the latter.
func Classes(list []result.ClassFigures) *doc.Doc {
	out := new(doc.Doc)
	if len(list) == 0 {
		return out
	}
	out.Line("the classes of traffic: with the others, alone, and how much worse they are with " +
		"the others")
	t := doc.NewTable("class", "metric", ">together", ">alone", ">slowdown", ">95% interval").Drop(
		"95% interval")
	for _, f := range list {
		metric, interval := f.Metric, "-"
		if f.Objective != "" {
			metric += " of " + f.Objective
		}
		if f.Slowdown != nil {
			interval = format.Interval(*f.Slowdown)
		}
		t.Row(f.Class, metric, doc.MedianOf(f.Together), doc.MedianOf(f.Alone),
			doc.MedianOf(f.Slowdown), interval)
	}
	out.Add(t)
	out.Gap()
	return out
}

// Traffic returns what the classes of traffic of each measured cell did to each other, and how fair
// its pattern of traffic was. It is empty if no cell has either.
func Traffic(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	loads := loadsOf(s.Cells)
	classed := loads.cells(s, func(c *set.Cell) bool {
		return c.Status == set.Measured && c.Config["class"] != ""
	})
	patterned := loads.cells(s, func(c *set.Cell) bool {
		return c.Status == set.Measured && len(c.Samples[result.JainClients])+
			len(c.Samples[result.JainPeers])+len(c.Samples[result.StormRate]) > 0
	})
	shown := state.ShownOf(s)
	writeClasses(out, shownCells(classed, shown), loads)
	if len(patterned) == 0 {
		return out
	}
	out.Line("\npatterns of traffic; Jain: 1 if all have the same rate, 1/n if one of n has " +
		"everything;\n" +
		"straggler: p50 of the slowest pair of ranks over that of the median pair:")
	writeRows(out, shownCells(patterned, shown), loads.name,
		col(">Jain of clients", metricColumn(result.JainClients, number)),
		col(">Jain of ranks", metricColumn(result.JainPeers, number)),
		col(">straggler", metricColumn(result.StragglerRatio, doc.Median)),
		col(">p50", metricColumn(result.LatencyP50, doc.Median)),
		col(">p99", metricColumn(result.LatencyP99, doc.Median)),
		col(">connections", metricColumn(result.StormRate, doc.Median)),
		col(">kept up", percentColumn(result.StormKept)),
		col(">connect", metricColumn(result.StormConnectP50, doc.Median)),
		col(">connect p99", metricColumn(result.StormConnectP99, doc.Median)),
		col(">close", metricColumn(result.StormClose, doc.Median)),
	)
	return out
}

// writeClasses writes a row for each class of each cell.
func writeClasses(out *doc.Doc, cells []*set.Cell, loads loads) {
	t := doc.NewTable("load", "transport", "class", ">throughput", ">slowdown", ">p50", ">slowdown",
		">p99", ">slowdown", ">in time", ">alone").Wrap(24, "load")
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
			t.Row(
				loads.name(c), c.Transport(), class.Name, doc.MedianOf(rate.Together),
				doc.MedianOf(rate.Slowdown), doc.MedianOf(p50.Together), doc.MedianOf(p50.Slowdown),
				doc.MedianOf(p99.Together), doc.MedianOf(p99.Slowdown), partOf(inTime.Together),
				partOf(inTime.Alone))
		}
	}
	if len(t.Rows) == 0 {
		return
	}
	out.Line("\nclasses of traffic, all at once; slowdown: how many times worse than alone; " +
		"times of open loops are response times;\n" +
		"in time: the share that met its objective, and alone:")
	out.Add(t)
}

func partOf(m *result.Metric) doc.Cell {
	if m == nil {
		return doc.None()
	}
	return doc.Part(m.Median)
}
