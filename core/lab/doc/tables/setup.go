package tables

import (
	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Setup returns what a start of each measured cell took: medians over its launches. It says so if
// no result has that.
func Setup(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	loads := loadsOf(s.Cells)
	rows := loads.cells(s, func(c *set.Cell) bool { return len(c.Samples[result.SetupOpen]) > 0 })
	if len(rows) == 0 {
		out.Line("\nno result has what its setup took")
		return out
	}
	out.Line("\nwhat a start took; open: the transport and its workers; register: memory with a " +
		"device, a part of open;\n" +
		"exchange: addresses, to all ranks; connect: one side of a connection; all: those of a " +
		"rank;\n" +
		"first call: on a connection; p50: of the window:")
	writeRows(out, rows, loads.name,
		col(">open", metricColumn(result.SetupOpen, doc.Median)),
		col(">register", metricColumn(result.SetupRegister, doc.Median)),
		col(">exchange", metricColumn(result.SetupExchange, doc.Median)),
		col(">connect", metricColumn(result.SetupConnect, doc.Median)),
		col(">all", metricColumn(result.SetupConnectAll, doc.Median)),
		col(">first call", metricColumn(result.FirstCall, doc.Median)),
		col(">p50", metricColumn(result.LatencyP50, doc.Median)),
		col(">close", metricColumn(result.Teardown, doc.Median)),
	)
	return out
}
