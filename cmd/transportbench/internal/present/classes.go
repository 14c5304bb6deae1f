package present

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
)

// classes writes the metrics of each class of traffic: with all classes at once, alone, and the former
// over the latter.
func classes(w io.Writer, r *result.Result) {
	if len(r.Config.Classes) == 0 {
		return
	}
	fmt.Fprintln(w, "the classes of traffic: with the others, alone, and how much worse they are with the others")
	t := newTable(w, "class", "metric", ">together", ">alone", ">slowdown")
	for _, class := range r.Config.Classes {
		for _, metric := range result.ClassMetrics {
			cells := []string{}
			for _, kind := range []string{result.ClassTogether, result.ClassAlone, result.ClassSlowdown} {
				text := "-"
				if m, ok := r.Summary[result.ClassMetric(class.Name, kind, metric)]; ok {
					text = format.Value(m)
				}
				cells = append(cells, text)
			}
			if cells[0] != "-" || cells[1] != "-" {
				t.AppendRow(table.Row{class.Name, metric, cells[0], cells[1], cells[2]})
			}
		}
	}
	t.Render()
	fmt.Fprintln(w)
}
