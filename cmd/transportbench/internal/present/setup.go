package present

import (
	"fmt"
	"io"
	"slices"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Setup writes what a start of each measured cell took: medians over its launches. It says so if no
// result has it.
func Setup(w io.Writer, s *set.Set) {
	var rows []*set.Cell
	for i := range s.Cells {
		if c := &s.Cells[i]; len(c.Samples[result.SetupOpen]) > 0 {
			rows = append(rows, c)
		}
	}
	if len(rows) == 0 {
		fmt.Fprintln(w, "\nno result has what its setup took")
		return
	}
	loads := loadsOf(s.Cells)
	slices.SortStableFunc(rows, func(a, b *set.Cell) int { return loads.position(a) - loads.position(b) })
	fmt.Fprintln(w, "\nwhat a start took; open: the transport and its workers; register: memory with a device, a part of open;\n"+
		"exchange: addresses, to all ranks; connect: one side of a connection; all: those of a rank;\n"+
		"first call: on a connection; p50: of the window:")
	writeRows(w, rows, []column{
		{"load", loads.name}, {"transport", (*set.Cell).Transport},
		{">open", metricColumn(result.SetupOpen, format.Value)},
		{">register", metricColumn(result.SetupRegister, format.Value)},
		{">exchange", metricColumn(result.SetupExchange, format.Value)},
		{">connect", metricColumn(result.SetupConnect, format.Value)},
		{">all", metricColumn(result.SetupConnectAll, format.Value)},
		{">first call", metricColumn(result.FirstCall, format.Value)},
		{">p50", metricColumn(result.LatencyP50, format.Value)},
		{">close", metricColumn(result.Teardown, format.Value)},
	})
}
