package tables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// CellLoops has the loops of the ranks of one cell.
type CellLoops struct {
	Cell  string            `json:"cell"`
	Ranks []result.RankLoop `json:"ranks"`
}

// maxWindows bounds the rows of the tables of windows. JSON has all of them.
const maxWindows = 20

// Loops returns what the daemons of each rank did in their loops.
func Loops(cells []CellLoops) *doc.Doc {
	out := new(doc.Doc)
	for i := range cells {
		if i > 0 {
			out.Gap()
		}
		c := &cells[i]
		out.Line("%s, %s\n", c.Cell, format.Count(c.Ranks[0].Windows, "window"))
		out.Append(RankLoops(c.Ranks, maxWindows))
	}
	return out
}

// RankLoops returns the loops of the ranks of one cell, with the first windows of the transport's
// batches.
func RankLoops(ranks []result.RankLoop, windows int) *doc.Doc {
	out := new(doc.Doc)
	loopEvents(out, ranks, len(ranks))
	loopPhases(out, ranks)
	loopTimes(out, ranks)
	loopWrites(out, ranks, windows)
	loopStorage(out, ranks)
	return out
}

// eventHeaders shortens names of events for a table.
var eventHeaders = strings.NewReplacer("from_", "", "responses", "resp", "back_", "")

// loopEvents writes the events of an iteration, one row for each of the first ranks.
func loopEvents(out *doc.Doc, ranks []result.RankLoop, limit int) {
	header := []string{">rank", ">loops/s"}
	var events []string
	for _, name := range result.LoopEvents() {
		if slices.ContainsFunc(ranks, func(l result.RankLoop) bool {
			_, has := l.PerLoop[name]
			return has
		}) {
			events = append(events, name)
			header = append(header, ">"+eventHeaders.Replace(name))
		}
	}
	t := doc.NewTable(append(header, ">loops/req")...)
	for _, l := range ranks[:min(len(ranks), limit)] {
		row := []any{strconv.Itoa(l.Rank), format.Magnitude(l.PerSecond)}
		for _, name := range events {
			cell := doc.None()
			if each, has := l.PerLoop[name]; has {
				cell = doc.Number(each, "ratio")
			}
			row = append(row, cell)
		}
		each := "-"
		if l.LoopsPerRequest > 0 {
			each = format.Digits(l.LoopsPerRequest)
		}
		t.Row(append(row, each)...)
	}
	out.Line("events per iteration of the daemons' loop")
	out.Add(t)
	if more := len(ranks) - limit; more > 0 {
		out.Line("and %s in the result", format.Count(more, "more rank"))
	}
	out.Gap()
}

// loopPhases writes the times of the phases, a row for each rank and phase.
func loopPhases(out *doc.Doc, ranks []result.RankLoop) {
	t := doc.NewTable(">rank", "phase", ">mean", ">p50", ">p90", ">p99", ">max", ">samples")
	for i := range ranks {
		for _, name := range result.LoopPhases() {
			p, timed := ranks[i].Phases[name]
			if !timed || p.Samples == 0 {
				continue
			}
			t.Row(strconv.Itoa(ranks[i].Rank), name, doc.Time(p.Mean), doc.Time(p.P50),
				doc.Time(p.P90), doc.Time(p.P99), doc.Time(p.Max), p.Samples)
		}
	}
	if len(t.Rows) == 0 {
		out.Line("no iteration was timed\n")
		return
	}
	out.Line("phases, of sampled iterations")
	out.Add(t)
	out.Gap()
}

// loopTimes writes the histogram of the time of an iteration, two rows for each rank: how many
// iterations, and their share.
func loopTimes(out *doc.Doc, ranks []result.RankLoop) {
	header, longest := []string{">rank"}, ""
	for _, b := range ranks[0].Times {
		if b.AtMostNS == 0 {
			header = append(header, ">over "+longest)
			continue
		}
		longest = bound(b.AtMostNS)
		header = append(header, ">to "+longest)
	}
	if len(header) == 1 {
		return
	}
	t := doc.NewTable(append(header, "")...)
	for i := range ranks {
		row, shares, all := []any{strconv.Itoa(ranks[i].Rank)}, []any{""}, uint64(0)
		counts := make([]uint64, len(ranks[i].Times))
		for at, b := range ranks[i].Times {
			counts[at] = b.Count
			all += b.Count
		}
		for _, n := range counts {
			row, shares = append(row, n), append(shares, doc.Part(float64(n)/float64(max(all, 1))))
		}
		if len(row) == len(header) {
			t.Row(append(row, doc.Bars(counts, 0))...)
			t.Row(append(shares, "")...)
		}
	}
	out.Line("sampled iterations by their time")
	out.Add(t)
	out.Gap()
}

// bound formats a round time.
func bound(ns uint64) string {
	if ns >= 1000 && ns%1000 == 0 {
		return strconv.FormatUint(ns/1000, 10) + " us"
	}
	return strconv.FormatUint(ns, 10) + " ns"
}

// loopWrites writes the batches of each window, and their sizes.
func loopWrites(out *doc.Doc, ranks []result.RankLoop, limit int) {
	t := doc.NewTable(">rank", ">window", ">batches", ">messages", ">mean", ">p50", ">p90", ">p99",
		">doorbells", ">credit only")
	left := 0
	sizes := map[int]map[int]uint64{} // by rank and size
	var bounds []int
	for i := range ranks {
		l := &ranks[i]
		sizes[l.Rank] = map[int]uint64{}
		for j := range l.Writes {
			x := &l.Writes[j]
			for _, b := range x.Sizes {
				sizes[l.Rank][b.AtMost] += b.Count
				if b.Count > 0 && !slices.Contains(bounds, b.AtMost) {
					bounds = append(bounds, b.AtMost)
				}
			}
			if len(t.Rows) == limit {
				left++
				continue
			}
			quantile := func(q float64) string {
				if size := x.Quantile(q); size > 0 {
					return messages(size)
				}
				return "-"
			}
			t.Row(strconv.Itoa(l.Rank), x.Window, x.Batches, x.Messages,
				quotient(x.Messages, x.Batches), quantile(0.5), quantile(0.9), quantile(0.99),
				x.Doorbells, x.CreditOnly)
		}
	}
	if len(t.Rows) == 0 {
		return
	}
	out.Line("batches of the transport in each window; mean to p99: messages per batch")
	out.Add(t)
	if left > 0 {
		out.Line("and %s in --json", format.Count(left, "more window"))
	}
	out.Gap()
	if len(bounds) == 0 {
		return
	}
	slices.Sort(bounds)
	header := []string{">rank"}
	for _, size := range bounds {
		header = append(header, ">"+messages(size))
	}
	t = doc.NewTable(header...)
	for i := range ranks {
		row := []any{strconv.Itoa(ranks[i].Rank)}
		for _, size := range bounds {
			row = append(row, sizes[ranks[i].Rank][size])
		}
		t.Row(row...)
	}
	out.Line("batches by their messages, all windows")
	out.Add(t)
	out.Gap()
}

// messages names the sizes of the batches of a bucket.
func messages(size int) string {
	if size <= 2 {
		return strconv.Itoa(size)
	}
	return fmt.Sprintf("%d-%d", size/2+1, size)
}

func loopStorage(out *doc.Doc, ranks []result.RankLoop) {
	t := doc.NewTable(">rank", ">lanes", ">reads", ">writes", ">lookups", ">mean time",
		">mean wait", ">most waiting")
	for i := range ranks {
		s := ranks[i].Storage
		if s == nil {
			continue
		}
		lanes := "any"
		if s.Lanes > 0 {
			lanes = strconv.Itoa(s.Lanes)
		}
		if s.WriteLanes > 0 {
			lanes += " + " + strconv.Itoa(s.WriteLanes)
		}
		served := float64(max(s.Reads+s.Writes+s.Lookups, 1))
		t.Row(strconv.Itoa(ranks[i].Rank), lanes, s.Reads, s.Writes, s.Lookups,
			doc.Time(float64(s.BusyNS)/served), doc.Time(float64(s.WaitNS)/served), s.MaxQueued)
	}
	if len(t.Rows) > 0 {
		out.Line("storage")
		out.Add(t)
		out.Gap()
	}
}
