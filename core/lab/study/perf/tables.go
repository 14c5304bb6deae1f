package perf

import (
	"fmt"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/store/format"
)

// Bounds of the tables. JSON has everything.
const (
	maxLines    = 10 // shared cache lines
	maxAccesses = 4  // to each of them
)

// hitmFigures are the figures of perf c2c in the terminal, of those that its version has.
var hitmFigures = []string{
	"Total records", "Load Operations", "Load Local HITM", "Load Remote HITM",
	"Load HIT Local Peer", "Load HIT Remote Peer",
	"Load Fill Buffer Hit", "Load L1D hit", "Load L2D hit", "Load LLC hit", "Load Local DRAM",
	"Load Remote DRAM",
	"Load access blocked by data", "Load access blocked by address",
	"LLC Misses to Remote DRAM", "LLC Misses to Remote cache (HITM)", "Store Operations",
	"Store L1D Miss", "Total Shared Cache Lines",
}

// Doc returns what perf saw as tables.
func (p *Profile) Doc() *doc.Doc {
	out := new(doc.Doc)
	load := p.Micro
	if load == "" {
		load = tables.Load(p.Config)
	}
	out.Line("%s\n%s", p.Transport, load)
	var watched []string
	if p.Throughput.Unwatched > 0 {
		watched = append(watched, format.Rate(p.Throughput.Unwatched)+" without perf")
	}
	if p.Throughput.C2C > 0 {
		watched = append(watched, format.Rate(p.Throughput.C2C)+" under perf c2c")
	}
	if p.Throughput.Result > 0 {
		watched = append(watched, format.Rate(p.Throughput.Result)+" in the result")
	}
	if len(watched) > 0 {
		out.Paragraph("throughput: " + strings.Join(watched, ", "))
	}
	out.Gap()
	writeThreads(out, p)
	out.Gap()
	writeSharing(out, p)
	return out
}

func writeThreads(out *doc.Doc, p *Profile) {
	if p.NoThreads != "" {
		out.Paragraph("no counts of threads: " + p.NoThreads)
		return
	}
	header := []string{">rank", "thread", ">cycles"}
	for _, name := range ratios {
		header = append(header, ">"+strings.ReplaceAll(name, "_", " "))
	}
	t := doc.NewTable(header...)
	for i := range p.Threads {
		e := &p.Threads[i]
		row := []any{e.Rank, e.Name, "-"}
		if cycles, counted := e.Counts["cycles"]; counted {
			row[2] = format.Magnitude(float64(cycles))
		}
		for _, name := range ratios {
			text := "-"
			if ratio, counted := e.Ratios[name]; counted {
				if text = format.Digits(100*ratio) + "%"; name == "ipc" {
					text = format.Digits(ratio)
				}
			}
			row = append(row, text)
		}
		t.Row(row...)
	}
	out.Line("without perf: instructions per cycle, and misses of the loads of each cache; " +
		"a dash is not counted")
	out.Add(t)
}

func writeSharing(out *doc.Doc, p *Profile) {
	if p.NoSharing != "" {
		out.Paragraph("no HITM table: " + p.NoSharing)
		return
	}
	t := doc.NewTable("perf c2c", ">samples")
	for _, name := range hitmFigures {
		if f, has := p.Sharing.Figure(name); has {
			text := fmt.Sprintf("%.0f", f.Value)
			if f.Percent {
				text = format.Digits(f.Value) + "%"
			}
			t.Row(name, text)
		}
	}
	out.Add(t)
	if len(p.Sharing.Lines) == 0 {
		out.Line("\nno cache line is shared")
		return
	}
	lines := doc.NewTable(">line", "address", ">share", ">local", ">remote", ">loads", ">stores")
	accesses := doc.NewTable(">line", "offset", ">rank", "thread", "function", ">local", ">remote",
		">stores").Wrap(30, "function")
	for i := range p.Sharing.Lines[:min(maxLines, len(p.Sharing.Lines))] {
		l := &p.Sharing.Lines[i]
		lines.Row(i, l.Address, format.Digits(l.Percent)+"%", l.Local, l.Remote, l.Loads, l.Stores)
		for j := range l.Accesses[:min(maxAccesses, len(l.Accesses))] {
			a := &l.Accesses[j]
			rank := "-"
			if a.Polls() {
				rank = fmt.Sprint(a.Rank)
			}
			accesses.Row(i, a.Offset, rank, a.Name, a.Symbol, a.Local, a.Remote, a.Stores)
		}
	}
	out.Line("\nshared cache lines, sorted on %s", p.Sharing.SortedOn)
	out.Add(lines)
	out.Line("\nsamples of the accesses to them")
	out.Add(accesses)
}
