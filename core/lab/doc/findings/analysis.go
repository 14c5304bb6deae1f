package findings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Analysis is the outcome of the analyze command, for JSON and for tables.
type Analysis struct {
	Kind     string            `json:"kind"` // "analysis"
	Source   string            `json:"source"`
	Cells    []AnalyzedCell    `json:"cells,omitempty"`
	Capacity *analyze.Capacity `json:"capacity,omitempty"`
	// Slowdowns compare meshes with one rank of each, if the set has it.
	Slowdowns []analyze.Slowdown `json:"slowdowns,omitempty"`
	// Handoffs are the hand-offs of caches, if the set has some.
	Handoffs []analyze.Handoff `json:"handoffs,omitempty"`
	// Objectives has the capacity under each of several objectives.
	Objectives []*analyze.Capacity `json:"objectives,omitempty"`
	// Loops are the daemons' loops of each measured cell, if a user asked for them.
	Loops []tables.CellLoops `json:"loops,omitempty"`
	// Figures are those of Columns, if a user chose them.
	Columns tables.Columns       `json:"columns,omitempty"`
	Figures []tables.CellFigures `json:"figures,omitempty"`
	// Warnings are the errors and warnings of all cells.
	Warnings []set.GroupedWarning `json:"warnings,omitempty"`
}

// AddWarnings sets Warnings: the findings of the analyses, and the failed checks of cells of s
// without one.
func (a *Analysis) AddWarnings(s *set.Set) {
	if len(a.Cells) == 0 {
		a.Warnings = set.Warnings(s)
		return
	}
	var g set.WarningGroups
	for i := range a.Cells {
		for _, f := range a.Cells[i].findings() {
			g.Add("", a.Cells[i].Cell, f)
		}
	}
	a.Warnings = g.List()
}

// AnalyzedCell is one cell with its analysis.
type AnalyzedCell struct {
	Cell     string            `json:"cell"`
	Config   map[string]string `json:"config"`
	Status   set.Status        `json:"status"`
	Reason   string            `json:"reason,omitempty"`
	Warnings []result.Finding  `json:"doubts,omitempty"`
	Analysis *analyze.Analysis `json:"analysis,omitempty"`
	// Windows counts the windows in each state of the machine if the set shows several. Shown says
	// which of them the analysis is of, as tables do: "8 near"; it is empty if there are no others.
	Windows     state.Counts         `json:"windows,omitempty"`
	Shown       string               `json:"shown,omitempty"`
	Predictions []analyze.Prediction `json:"predictions,omitempty"`
}

// MarshalJSON gives warnings also the key check, which was that of their name up to version 0.9.
func (c AnalyzedCell) MarshalJSON() ([]byte, error) {
	type named struct {
		result.Finding
		Check string `json:"check"`
	}
	type plain AnalyzedCell
	both := struct {
		plain
		Warnings []named `json:"doubts,omitempty"`
	}{plain: plain(c)}
	for _, w := range c.Warnings {
		both.Warnings = append(both.Warnings, named{w, w.Name})
	}
	return json.Marshal(both)
}

// findings returns those of the analysis, or the cell's failed checks without one.
func (c *AnalyzedCell) findings() []result.Finding {
	if c.Analysis != nil {
		return c.Analysis.Findings
	}
	return c.Warnings
}

// Unusable reports whether a finding is an error, so the cell's figures must not
// be used.
func (c *AnalyzedCell) Unusable() bool {
	return slices.ContainsFunc(c.findings(),
		func(f result.Finding) bool { return f.Severity == result.Error })
}

// Analyze returns an analysis: a single cell in full, several as one row each.
// With detail, a single cell also shows the events of each thread.
func Analyze(a *Analysis, detail bool) *doc.Doc {
	out := new(doc.Doc)
	switch {
	case len(a.Cells) == 1 && a.Cells[0].Analysis != nil:
		analyzedCell(out, &a.Cells[0], detail)
	case len(a.Cells) > 0:
		overview(out, a.Cells)
	}
	if len(a.Slowdowns) > 0 {
		out.Append(tables.Slowdowns(a.Slowdowns))
		out.Gap()
	}
	if a.Capacity != nil {
		if len(a.Cells) > 0 {
			out.Gap()
		}
		capacity(out, a.Capacity)
	}
	if len(a.Objectives) > 0 {
		objectives(out, a.Objectives)
	}
	switch {
	case len(a.Cells) == 1 && a.Cells[0].Analysis != nil: // it has its findings
	case len(a.Warnings) > 0:
		out.Append(tables.GroupedWarnings(a.Warnings))
	default:
		out.Line("no findings against these figures")
	}
	return out
}

func analyzedCell(out *doc.Doc, c *AnalyzedCell, detail bool) {
	a := c.Analysis
	out.Line("%s, %s", c.Cell, format.Count(a.Repeats, "repeat"))
	if c.Shown != "" {
		text := "over " + c.Shown + " windows, as in the tables"
		if len(c.Windows) > 0 {
			text += "; by state of the machine: " + c.Windows.String()
		}
		out.Paragraph(text)
	}
	out.Gap()
	out.Paragraph("%s: %s", strings.ToUpper(string(a.Verdict.Bound)), a.Verdict.Message)
	for _, line := range a.Verdict.Evidence {
		out.Item(line)
	}
	out.Gap()
	for i := range a.Breakdowns {
		out.Append(Breakdown(&a.Breakdowns[i]))
	}
	limits(out, a.Limit)
	model(out, a.Model)
	out.Line("overheads")
	for _, l := range a.Overheads {
		out.Item(l.Message)
	}
	out.Gap()
	if len(a.OverTime) > 0 {
		out.Line("why the transport is not faster, from its own counters")
		for _, c := range a.OverTime {
			out.Item(c.Message)
		}
		out.Gap()
	}
	stalls(out, a)
	predictions(out, c.Predictions)
	if a.Replay != nil {
		out.Line("the replayed part of the trace, at its recorded times")
		out.Append(Trace(a.Replay))
		out.Gap()
		if a.ReplayTimes != nil {
			out.Append(replayTimes(a.ReplayTimes))
			out.Gap()
		}
	}
	if detail || counted(a) {
		events(out, a)
	}
	for _, line := range a.Missing {
		out.Paragraph("missing: " + line)
	}
	writeFindings(out, a.Findings)
}

// stalls writes the longest stalls, and how much time each cause took.
func stalls(out *doc.Doc, a *analyze.Analysis) {
	s := a.Stalls
	if s == nil {
		return
	}
	var parts []string
	for _, c := range slices.SortedFunc(maps.Keys(s.Causes),
		func(x, y result.Cause) int { return cmp.Compare(s.Causes[y], s.Causes[x]) }) {
		parts = append(parts, fmt.Sprintf("%s %s", analyze.CauseText(c), format.Time(s.Causes[c])))
	}
	out.Paragraph("%s in %s, %s: %s", format.Count(s.Count, "stall"),
		format.Count(a.Repeats, "window"),
		format.Time(s.Total), strings.Join(parts, "; "))
	for _, one := range s.Longest {
		out.Item(one.Message)
	}
	out.Gap()
}

// Breakdown returns the parts of a time.
func Breakdown(b *analyze.Breakdown) *doc.Doc {
	out := new(doc.Doc)
	t := doc.NewTable(b.Name, ">mean", ">share", "").Wrap(20, "")
	for _, p := range b.Parts {
		t.Row(p.Label(), doc.Time(p.Mean), doc.Part(p.Share), p.Help)
	}
	t.Row("whole", doc.Time(b.Whole), doc.Part(1), "")
	out.Line("%s", b.Title)
	out.Add(t)
	if b.Note != "" {
		out.Paragraph(b.Note)
	}
	out.Gap()
	return out
}

func limits(out *doc.Doc, l *analyze.Limit) {
	if l == nil {
		return
	}
	out.Line("the limit: measured %s, %.0f%% of the possible %s (%s)", format.Rate(l.Measured),
		100*l.Share, format.Rate(l.Throughput), l.Bounds[0].Name)
	t := doc.NewTable("bound", ">at most", "").Wrap(20, "").MaxWidth(64, "")
	for _, b := range l.Bounds {
		t.Row(b.Name, doc.Rate(b.Throughput), b.Message)
	}
	out.Add(t)
	out.Gap()
}

func model(out *doc.Doc, m *analyze.Model) {
	if m == nil {
		return
	}
	out.Line("the model: where a call of a closed loop spends its time")
	out.Item("%s in the client, %s in the daemon, %s elsewhere; %d x %s with %d in flight each",
		format.Time(m.ClientTime), format.Time(m.DaemonTime), format.Time(m.Delay), m.CallingRanks,
		format.Count(m.Clients, "client"), m.InFlight)
	if m.Expected > 0 {
		out.Item("%.0f%% of the requests are remote and take %s, the others %s: expected %s per "+
			"client, measured %s (%+.1f%%)",
			100*m.RemoteShare, format.Time(m.Remote), format.Time(m.Local), format.Rate(m.Expected),
			format.Rate(m.Measured), 100*(m.Measured/m.Expected-1))
	}
	out.Gap()
}

func predictions(out *doc.Doc, list []analyze.Prediction) {
	if len(list) == 0 {
		return
	}
	out.Line("what if")
	for _, p := range list {
		out.Item(p.Message + measuredNote(p))
	}
	out.Gap()
}

// measuredNote compares a prediction with the measurement, if the set has one.
func measuredNote(p analyze.Prediction) string {
	if p.MeasuredAfter == nil {
		return ""
	}
	return fmt.Sprintf("; the set measured %s (the prediction is %+.0f%% off)",
		format.Value(*p.MeasuredAfter), 100*(p.Throughput/p.MeasuredAfter.Median-1))
}

// The columns of the tables of events.
var (
	hardware = []string{"cycles", "instructions", "branch_misses", "cache_references",
		"cache_misses", "l1d_load_misses", "llc_loads", "llc_load_misses"}
	software = []string{"voluntary_switches", "involuntary_switches", "migrations", "minor_faults",
		"major_faults"}
)

// Events returns what the kernel and the processor counted on each polling
// thread. Without hardware counters it writes the reason.
func Events(r *result.Result) *doc.Doc {
	out := new(doc.Doc)
	// else there is no complete window
	if a, err := analyze.Results([]*result.Result{r}); err == nil {
		out.Gap()
		events(out, a)
	}
	return out
}

// counted reports whether there are hardware counters.
func counted(a *analyze.Analysis) bool {
	return slices.ContainsFunc(a.Threads,
		func(e analyze.ThreadEvents) bool { return len(e.PerOp) > 0 })
}

func events(out *doc.Doc, a *analyze.Analysis) {
	t := doc.NewTable("thread", ">voluntary/s", ">involuntary/s", ">migrations/s",
		">minor faults/s", ">major faults/s")
	for i := range a.Threads {
		row := []any{threadName(&a.Threads[i])}
		for _, name := range software {
			row = append(row, format.Digits(a.Threads[i].PerSecond[name]))
		}
		t.Row(row...)
	}
	out.Add(t)
	out.Gap()
	if !counted(a) {
		out.Paragraph("no hardware counters: " + a.NoCounters)
		out.Gap()
		return
	}
	t = doc.NewTable("per op of the thread", ">IPC", ">cycles", ">instr", ">branch miss",
		">cache ref", ">cache miss", ">L1d miss", ">LLC load", ">LLC miss")
	for i := range a.Threads {
		e := &a.Threads[i]
		row := []any{threadName(e), doc.None()}
		if e.IPC != nil {
			row[1] = format.Digits(*e.IPC)
		}
		for _, name := range hardware {
			if v, has := e.PerOp[name]; has {
				row = append(row, format.Digits(v))
			} else {
				row = append(row, "-")
			}
		}
		t.Row(row...)
	}
	out.Add(t)
	out.Gap()
}

func threadName(e *analyze.ThreadEvents) string {
	return fmt.Sprintf("rank %d %s", e.Rank, e.Thread)
}

func writeFindings(out *doc.Doc, list []result.Finding) {
	if len(list) == 0 {
		out.Line("no findings against these figures")
	}
	for _, f := range list {
		out.Finding(doc.Paragraph, f.Severity, f.Name+": "+f.Message)
	}
}

// overview writes one row per cell, and what is predicted.
func overview(out *doc.Doc, cells []AnalyzedCell) {
	analyzed := 0
	t := doc.NewTable("cell", ">throughput", ">of its limit", "bound by", "").Wrap(16, "").
		MaxWidth(30, "cell").MaxWidth(30, "")
	for i := range cells {
		c := &cells[i]
		if c.Analysis == nil {
			continue
		}
		analyzed++
		throughput, share := "-", "-"
		if l := c.Analysis.Limit; l != nil {
			throughput, share = format.Rate(l.Measured), fmt.Sprintf("%.0f%%", 100*l.Share)
		}
		t.Row(c.Cell, throughput, share, string(c.Analysis.Verdict.Bound), c.Analysis.Verdict.Why)
	}
	if analyzed > 0 {
		out.Add(t)
		if slices.ContainsFunc(cells, func(c AnalyzedCell) bool { return len(c.Windows) > 0 }) {
			out.Line("of each load, the windows in the state of the machine in which all its " +
				"cells have most")
		}
		out.Line("--cell selects one, which is then explained in full\n")
	}
	for i := range cells {
		c := &cells[i]
		switch {
		case c.Status == set.Published:
		case c.Analysis == nil:
			out.Paragraph("%s: %s: %s", c.Cell, c.Status, c.Reason)
		}
	}
	for i := range cells {
		for _, p := range cells[i].Predictions {
			out.Paragraph("what if: %s: %s%s", cells[i].Cell, p.Message, measuredNote(p))
		}
	}
}
