package tables

import (
	"fmt"
	"slices"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/base/grouped"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Work returns what each measured cell of a set did for an operation, as counted, in the order of
// the set. If the machine was in several states, it is that of the common state of a load, as in
// [Comparison]. Work is empty if no cell has counters of work.
func Work(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	loads := loadsOf(s.Cells)
	rows := loads.cells(s, func(c *set.Cell) bool {
		return c.Status == set.Measured && len(c.Samples[result.CopiesPerOp]) > 0
	})
	if len(rows) == 0 {
		return out
	}
	rows = shownCells(rows, state.ShownOf(s))
	out.Line("both sides, as counted; busy: time of the polling threads' " +
		"iterations that found work;\n" +
		"runtime bytes: those that the runtime copies and checksums; kernel bytes: copied by the " +
		"kernel, besides:")
	counts, same := withoutConstants(rows,
		col(">busy", metricColumn(result.BusyPerOp, doc.Median)),
		col(">copies", metricColumn(result.CopiesPerOp, number)),
		col(">copied", metricColumn(result.CopiedBytesPerOp, inBytes)),
		col(">checksummed", metricColumn(result.ChecksummedBytesPerOp, inBytes)),
		col(">runtime bytes", metricColumn(result.HarnessBytesPerOp, inBytes)),
		col(">system calls", metricColumn(result.SyscallsPerOp, number)),
		col(">kernel bytes", metricColumn(result.KernelBytesPerOp, inBytes)),
		col(">doorbells", metricColumn(result.DoorbellsPerOp, number)),
		col(">threads", metricColumn(result.Threads, whole)),
	)
	writeRows(out, rows, loads.name, counts...)
	if len(same) > 0 {
		out.Line("in all rows: " + strings.Join(same, ", "))
	}
	writeGroups(out, "own checks of payloads", rows, loads,
		func(c *set.Cell) string { return c.Plugin.Integrity })
	writeGroups(out, "work not counted", rows, loads,
		func(c *set.Cell) string { return c.Plugin.Uncounted })
	writeTracks(out, rows, loads)
	return out
}

// withoutConstants splits columns into those that vary between rows and the names and values of the
// others. A single row keeps all columns.
func withoutConstants(rows []*set.Cell, columns ...column) (varying []column, same []string) {
	for _, col := range columns {
		first := col.cell(rows[0]).Text
		if len(rows) == 1 || slices.ContainsFunc(rows,
			func(c *set.Cell) bool { return col.cell(c).Text != first }) {
			varying = append(varying, col)
		} else if first != "-" {
			same = append(same, strings.TrimPrefix(col.header, ">")+" "+first)
		}
	}
	return varying, same
}

// writeGroups writes a line for each text, with the transports that have it. The text of a
// transport's first row stands for all its rows, and rows with another one are named with their
// load.
func writeGroups(out *doc.Doc, title string, rows []*set.Cell, loads loads,
	text func(*set.Cell) string) {
	var order []string
	first, names := map[string]string{}, map[string][]string{}
	for _, c := range rows {
		text, name := text(c), c.Transport()
		if text == "" {
			continue
		}
		if known, seen := first[name]; !seen {
			first[name] = text
		} else if known != text {
			name += " " + loads.name(c)
		}
		if names[text] == nil {
			order = append(order, text)
		}
		if !slices.Contains(names[text], name) {
			names[text] = append(names[text], name)
		}
	}
	for _, text := range order {
		out.Line("%s: %s: %s", title, strings.Join(names[text], ", "), text)
	}
}

// writeTracks names the cells that were measured once because they are the same on both tracks.
func writeTracks(out *doc.Doc, rows []*set.Cell, loads loads) {
	matched := map[string]bool{} // profiles
	for _, c := range rows {
		if c.Track() == string(config.TrackMatched) {
			matched[c.Config["profile"]] = true
		}
	}
	both := slices.DeleteFunc(slices.Clone(rows), func(c *set.Cell) bool {
		return c.Track() != set.BothTracks || !matched[c.Config["profile"]]
	})
	for _, cells := range grouped.By(both, loads.name) {
		names := make([]string, len(cells))
		for i, c := range cells {
			names[i] = c.Transport()
		}
		out.Line("%s is the same with track=matched: %s", loads.name(cells[0]),
			strings.Join(names, ", "))
	}
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
