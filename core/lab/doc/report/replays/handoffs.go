package replays

import (
	"fmt"
	"html/template"

	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/format"
)

// Handoffs draws the shares of the rate in bulk that hand-offs reach, from the number of the set's
// first cell on.
func Handoffs(list []analyze.Handoff, first int, look func(cell int) int) template.HTML {
	var bars []cellpage.Bar
	for i := range list {
		h := &list[i]
		if h.BulkShare == nil {
			continue
		}
		cell := first + h.At
		text := format.Digits(100**h.BulkShare) + "% of bulk"
		if h.FirstLayer != nil {
			text += ", first layer after " + format.Value(*h.FirstLayer)
		}
		bars = append(bars, cellpage.Bar{Label: h.Cell, Text: text, Value: *h.BulkShare, Low: h.Low,
			High: h.High, Class: fmt.Sprintf("s%d", look(cell)), Cell: &cell})
	}
	return template.HTML(cellpage.Bars("Rate of hand-offs in pages over that in bulk, the "+
		"dashed line, with 95% intervals", 1, bars))
}
