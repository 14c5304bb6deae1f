package present

import (
	"fmt"
	"io"
	"slices"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
)

// Work writes what each measured cell of a set did for an operation, as counted, in the order of
// the set. It writes nothing if no cell has counters of work.
func Work(w io.Writer, s *set.Set) {
	loads := loadsOf(s.Cells)
	columns := []column{
		{"load", loads.name},
		{"transport", (*set.Cell).Transport},
		{"provider", provider},
		{"track", (*set.Cell).Track},
		{">copies", metricColumn(result.CopiesPerOp, number)},
		{">copied", metricColumn(result.CopiedBytesPerOp, inBytes)},
		{">checksummed", metricColumn(result.ChecksummedBytesPerOp, inBytes)},
		{">by the harness", metricColumn(result.HarnessBytesPerOp, inBytes)},
		{">system calls", metricColumn(result.SyscallsPerOp, number)},
		{">by the kernel", metricColumn(result.KernelBytesPerOp, inBytes)},
		{">doorbells", metricColumn(result.DoorbellsPerOp, number)},
		{">threads", metricColumn(result.Threads, whole)},
		{"not counted", func(c *set.Cell) string { return c.Plugin.Uncounted }},
		{"own checks", func(c *set.Cell) string { return c.Plugin.Integrity }},
	}
	var rows []*set.Cell
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Status == set.Measured && len(c.Samples[result.CopiesPerOp]) > 0 {
			rows = append(rows, c)
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortStableFunc(rows, func(a, b *set.Cell) int { return loads.position(a) - loads.position(b) })
	fmt.Fprintln(w, "\nwork per operation, both sides, as counted:")
	writeRows(w, rows, columns)
}

// provider names what carried the bytes, with what the transport took for options that left the
// choice to it.
func provider(c *set.Cell) string { return format.Provider(c.Plugin.Provider, c.Plugin.Chosen) }

// The formats of values below a title that says "per operation", so without that in their unit.
func number(m result.Metric) string { return format.Digits(m.Median) }
func whole(m result.Metric) string  { return fmt.Sprintf("%.0f", m.Median) }

func inBytes(m result.Metric) string {
	switch bytes := m.Median; {
	case bytes >= 1<<20:
		return format.Digits(bytes/(1<<20)) + " MiB"
	case bytes >= 10<<10:
		return format.Digits(bytes/(1<<10)) + " KiB"
	default:
		return fmt.Sprintf("%.0f B", bytes)
	}
}
