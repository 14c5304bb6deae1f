package present

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// mostRanks bounds the rows of a table. The result has all ranks.
const mostRanks = 8

// mesh writes what the daemons of a mesh did, and the parts of a remote
// request's service time.
func mesh(w io.Writer, r *result.Result) {
	if !r.Config.Mesh() {
		return
	}
	loops(w, result.LoopsOf(r.Repeats))
	phases(w, r.Repeats)
	stages(w, r.Repeats)
}

// loops writes one row per rank.
func loops(w io.Writer, list []result.Loop) {
	if len(list) == 0 {
		return
	}
	proxied := list[0].Proxy != nil
	header := []string{">rank", ">loops/s", ">empty", ">served"}
	if proxied {
		header = append(header, ">clients", ">local", ">remote", ">resp", ">incoming")
	}
	header = append(header, ">flush", ">pressure", ">loops/req")
	t := newTable(w, header...)
	for _, l := range list[:min(len(list), mostRanks)] {
		t.AppendRow(loopRow(l, proxied))
	}
	fmt.Fprintln(w, "the daemons' loop: counts per iteration")
	t.Render()
	if more := len(list) - mostRanks; more > 0 {
		fmt.Fprintf(w, "and %s in the result\n", format.Count(more, "more rank"))
	}
	fmt.Fprintln(w)
}

func loopRow(l result.Loop, proxied bool) table.Row {
	c := l.Counts
	each := func(n uint64) string { return quotient(n, c.Loops) }
	row := table.Row{strconv.Itoa(l.Rank), magnitude(l.PerSecond), portion(float64(c.EmptyLoops) / float64(max(c.Loops, 1))), each(c.Requests)}
	if proxied {
		p := l.Proxy
		row = append(row, each(p.FromClients), each(p.Local), each(p.Remote), each(p.Responses), each(p.Incoming))
	}
	return append(row, each(c.Flushes), each(c.BackPressure), quotient(c.Loops, c.Requests))
}

// quotient returns a dash if by is 0.
func quotient(n, by uint64) string {
	if by == 0 {
		return "-"
	}
	return format.Digits(float64(n) / float64(by))
}

// magnitude formats a rate without its unit.
func magnitude(perSecond float64) string {
	return strings.TrimSpace(strings.TrimSuffix(format.Rate(perSecond), "op/s"))
}

func portion(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }

// phases writes the time of each phase of the loop.
func phases(w io.Writer, repeats []result.Repeat) {
	of, err := result.PhasesOf(repeats)
	whole := of[record.PhaseLoop]
	if err != nil || whole.Samples == 0 {
		return // a check reports it
	}
	t := newTable(w, "phase of a loop", ">mean", ">p50", ">p90", ">p99", ">max", ">share")
	row := func(name string) {
		s, timed := of[name]
		if !timed {
			return
		}
		share := "-"
		if name != record.PhaseTurnaround {
			share = portion(s.Mean / whole.Mean)
		}
		t.AppendRow(table.Row{name, format.Time(s.Mean), format.Time(s.P50), format.Time(s.P90), format.Time(s.P99), format.Time(s.Max), share})
	}
	for _, name := range record.PhaseNames {
		row(name)
	}
	row(record.PhaseLoop)
	row(record.PhaseTurnaround)
	t.Render()
	fmt.Fprintln(w)
}

// stageHelp says when each stage ends.
var stageHelp = map[string]string{
	record.StageNames[0]: "until the daemon polls the call",
	record.StageNames[1]: "until its doorbell has rung",
	record.StageNames[2]: "until the response is polled",
	record.StageNames[3]: "until the client polls it",

	record.StageClient:   "harness, until the request is posted",
	record.StageRequest:  "until the daemon polls it",
	record.StageServe:    "until the daemon has the reply",
	record.StageFlush:    "until the reply is posted",
	record.StageResponse: "until the client polls it",
	record.StageReturn:   "of this, the client handled other responses",
}

// stages writes the parts of a remote request's service time.
func stages(w io.Writer, repeats []result.Repeat) {
	s, err := result.StagesOf(repeats)
	if err != nil || s == nil {
		return // a check reports it
	}
	title := "stage of a remote request"
	if s.Direct {
		title = "stage of a call"
	}
	t := newTable(w, title, ">mean", ">p50", ">p99", ">share", "").wrap(20, "")
	for i, name := range s.Names {
		part := s.Spreads[i]
		t.AppendRow(table.Row{name, format.Time(part.Mean), format.Time(part.P50), format.Time(part.P99), portion(part.Mean / s.Whole.Mean), stageHelp[name]})
	}
	if s.Held > 0 {
		t.AppendRow(table.Row{"stalls", format.Time(s.Held), "", "", portion(s.Held / s.Whole.Mean), "what calls of over " + format.Time(s.HeldLimit) + " add"})
	}
	rest := (1 - s.Explained()) * s.Ordinary()
	t.AppendRow(table.Row{"unexplained", format.Time(rest), "", "", portion(rest / s.Whole.Mean), "the mean minus the stages' means"})
	t.AppendRow(table.Row{"whole", format.Time(s.Whole.Mean), format.Time(s.Whole.P50), format.Time(s.Whole.P99), portion(1), "service time"})
	t.Render()
	fmt.Fprintln(w)
}
