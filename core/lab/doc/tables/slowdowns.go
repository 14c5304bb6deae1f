package tables

import (
	"fmt"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/analyze"
)

// Slowdowns returns how much slower meshes are than one rank.
func Slowdowns(list []analyze.Slowdown) *doc.Doc {
	out := new(doc.Doc)
	t := doc.NewTable("mesh", ">throughput", ">one rank", ">slowdown", ">95% interval")
	for i := range list {
		s := &list[i]
		between := "-"
		if s.Low != nil {
			between = fmt.Sprintf("%.2f to %.2f", *s.Low, *s.High)
		}
		t.Row(s.Cell, doc.Median(s.All), doc.Median(s.Alone), fmt.Sprintf("%.2f", s.Ratio), between)
	}
	out.Line(
		"throughput of one rank, whose requests are all local, over that of all ranks together")
	out.Add(t)
	return out
}
