package present

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/study/perf"
)

// Bounds of the tables. JSON has everything.
const (
	mostLines    = 10  // shared cache lines
	mostAccesses = 4   // to each of them
	leastCycles  = 100 // a thread that does not poll is shown if it has a hundredth of all cycles
)

// hitmFigures are the figures of perf c2c in the terminal, of those that its version has.
var hitmFigures = []string{
	"Total records", "Load Operations", "Load Local HITM", "Load Remote HITM", "Load HIT Local Peer", "Load HIT Remote Peer",
	"Load Fill Buffer Hit", "Load L1D hit", "Load L2D hit", "Load LLC hit", "Load Local DRAM", "Load Remote DRAM",
	"Load access blocked by data", "Load access blocked by address",
	"LLC Misses to Remote DRAM", "LLC Misses to Remote cache (HITM)", "Store Operations", "Store L1D Miss", "Total Shared Cache Lines",
}

// C2C writes what perf saw as tables.
func C2C(w io.Writer, c *perf.Profile) {
	fmt.Fprintf(w, "%s\n%s\n", c.Transport, Load(c.Config))
	var watched []string
	if c.Throughput.Stat > 0 {
		watched = append(watched, format.Rate(c.Throughput.Stat)+" under perf stat")
	}
	if c.Throughput.C2C > 0 {
		watched = append(watched, format.Rate(c.Throughput.C2C)+" under perf c2c")
	}
	if c.Throughput.Result > 0 {
		watched = append(watched, format.Rate(c.Throughput.Result)+" in the result, without")
	}
	if len(watched) > 0 {
		paragraph(w, 0, 2, "throughput: "+strings.Join(watched, ", "))
	}
	fmt.Fprintln(w)
	writeThreads(w, c)
	fmt.Fprintln(w)
	writeSharing(w, c)
}

func writeThreads(w io.Writer, c *perf.Profile) {
	if c.NoThreads != "" {
		paragraph(w, 0, 2, "no counts of threads: "+c.NoThreads)
		return
	}
	all := uint64(0)
	for i := range c.Threads {
		all += c.Threads[i].Counts["cycles"]
	}
	header := []string{">rank", "thread", ">cycles"}
	for _, r := range perf.Ratios {
		header = append(header, ">"+strings.ReplaceAll(r.Name, "_", " "))
	}
	t := newTable(w, header...)
	for i := range c.Threads {
		e := &c.Threads[i]
		if !e.Polls() && e.Counts["cycles"]*leastCycles < max(all, 1) {
			continue
		}
		rank := "-"
		if e.Polls() {
			rank = fmt.Sprint(e.Rank)
		}
		row := table.Row{rank, e.Name, "-"}
		if cycles, counted := e.Counts["cycles"]; counted {
			row[2] = magnitude(float64(cycles))
		}
		for _, r := range perf.Ratios {
			text := "-"
			if ratio, counted := e.Ratios[r.Name]; counted {
				if text = format.Digits(100*ratio) + "%"; r.Name == "ipc" {
					text = format.Digits(ratio)
				}
			}
			row = append(row, text)
		}
		t.AppendRow(row)
	}
	fmt.Fprintln(w, "perf stat: instructions per cycle, and misses of the loads of each cache; a dash is not counted")
	t.Render()
}

func writeSharing(w io.Writer, c *perf.Profile) {
	if c.NoSharing != "" {
		paragraph(w, 0, 2, "no HITM table: "+c.NoSharing)
		return
	}
	t := newTable(w, "perf c2c", ">samples")
	for _, name := range hitmFigures {
		if f, has := c.Sharing.Figure(name); has {
			text := fmt.Sprintf("%.0f", f.Value)
			if f.Percent {
				text = format.Digits(f.Value) + "%"
			}
			t.AppendRow(table.Row{name, text})
		}
	}
	t.Render()
	if len(c.Sharing.Lines) == 0 {
		fmt.Fprintln(w, "\nno cache line is shared")
		return
	}
	lines := newTable(w, ">line", "address", ">share", ">local", ">remote", ">loads", ">stores")
	accesses := newTable(w, ">line", "offset", ">rank", "thread", "function", ">local", ">remote", ">stores").wrap(30, "function")
	for i := range c.Sharing.Lines[:min(mostLines, len(c.Sharing.Lines))] {
		l := &c.Sharing.Lines[i]
		lines.AppendRow(table.Row{i, l.Address, format.Digits(l.Percent) + "%", l.Local, l.Remote, l.Loads, l.Stores})
		for j := range l.Accesses[:min(mostAccesses, len(l.Accesses))] {
			a := &l.Accesses[j]
			rank := "-"
			if a.Polls() {
				rank = fmt.Sprint(a.Rank)
			}
			accesses.AppendRow(table.Row{i, a.Offset, rank, a.Name, a.Symbol, a.Local, a.Remote, a.Stores})
		}
	}
	fmt.Fprintf(w, "\nshared cache lines, sorted on %s\n", c.Sharing.SortedOn)
	lines.Render()
	fmt.Fprintln(w, "\nsamples of the accesses to them")
	accesses.Render()
}
