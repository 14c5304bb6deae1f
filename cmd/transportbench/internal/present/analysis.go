package present

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"transportbench/core/lab/judge/analyze"
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
	// Objectives has the capacity under each of several objectives.
	Objectives []*analyze.Capacity `json:"objectives,omitempty"`
	// Loops are the daemons' loops of each measured cell, if a user asked for them.
	Loops []CellLoops `json:"loops,omitempty"`
	// Figures are those of Columns, if a user chose them.
	Columns Columns       `json:"columns,omitempty"`
	Figures []CellFigures `json:"figures,omitempty"`
	// Warnings are the errors and warnings of all cells.
	Warnings []set.GroupedWarning `json:"warnings,omitempty"`
}

// AddWarnings sets Warnings: the findings of the analyses, and the failed checks of cells of s without
// one.
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
	// Windows has the windows of each state of the machine if the set shows several. The analysis is
	// over all of them.
	Windows     []StateWindows       `json:"windows,omitempty"`
	Predictions []analyze.Prediction `json:"predictions,omitempty"`
}

// StateWindows counts the windows of a cell in one state of the machine.
type StateWindows struct {
	State   string `json:"state"`
	Windows int    `json:"windows"`
}

// windows describes the windows of a cell by state: "6 near, 4 far".
func (c *AnalyzedCell) windows() string {
	var parts []string
	for _, in := range c.Windows {
		parts = append(parts, fmt.Sprintf("%d %s", in.Windows, in.State))
	}
	return strings.Join(parts, ", ")
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
	return slices.ContainsFunc(c.findings(), func(f result.Finding) bool { return f.Severity == result.Error })
}

// width is the length of a line.
const width = 98

// widthOf returns the length of a line on w: less than width on a narrower terminal.
func widthOf(w io.Writer) int {
	if s := newScreen(w); s.width != nil {
		return max(min(width, s.width()-1), narrowest)
	}
	return width
}

// narrowest is the shortest line that a text is wrapped to.
const narrowest = 30

// paragraph wraps and writes a text. It indents all lines by indent, and those
// after the first by hang more.
func paragraph(w io.Writer, indent, hang int, message string) {
	for i, line := range strings.Split(text.WrapSoft(message, widthOf(w)-indent-hang), "\n") {
		if i == 1 {
			indent += hang
		}
		fmt.Fprintf(w, "%s%s\n", strings.Repeat(" ", indent), strings.TrimRight(line, " "))
	}
}

// Analyze writes an analysis: a single cell in full, several as one row each.
// With detail, a single cell also shows the events of each thread.
func Analyze(w io.Writer, a *Analysis, detail bool) {
	switch {
	case len(a.Cells) == 1 && a.Cells[0].Analysis != nil:
		analyzedCell(w, &a.Cells[0], detail)
	case len(a.Cells) > 0:
		overview(w, a.Cells)
	}
	if len(a.Slowdowns) > 0 {
		slowdowns(w, a.Slowdowns)
		fmt.Fprintln(w)
	}
	if a.Capacity != nil {
		if len(a.Cells) > 0 {
			fmt.Fprintln(w)
		}
		capacity(w, a.Capacity)
	}
	if len(a.Objectives) > 0 {
		objectives(w, a.Objectives)
	}
	switch {
	case len(a.Cells) == 1 && a.Cells[0].Analysis != nil: // it has its findings
	case len(a.Warnings) > 0:
		GroupedWarnings(w, a.Warnings, false)
	default:
		fmt.Fprintln(w, "no findings against these figures")
	}
}

// slowdowns writes how much slower meshes are than one rank.
func slowdowns(w io.Writer, list []analyze.Slowdown) {
	t := newTable(w, "mesh", ">throughput", ">one rank", ">slowdown", ">95% interval")
	for i := range list {
		s := &list[i]
		between := "-"
		if s.Low != nil {
			between = fmt.Sprintf("%.2f to %.2f", *s.Low, *s.High)
		}
		t.AppendRow(table.Row{s.Cell, format.Value(s.All), format.Value(s.Alone), fmt.Sprintf("%.2f", s.Ratio), between})
	}
	fmt.Fprintln(w, "throughput of one rank, whose requests are all local, over that of all ranks together")
	t.Render()
}

func analyzedCell(w io.Writer, c *AnalyzedCell, detail bool) {
	a := c.Analysis
	fmt.Fprintf(w, "%s, %s\n", c.Cell, format.Count(a.Repeats, "repeat"))
	if len(c.Windows) > 0 {
		paragraph(w, 0, 2, fmt.Sprintf("over the windows of all states of the machine: %s", c.windows()))
	}
	fmt.Fprintln(w)
	paragraph(w, 0, 2, fmt.Sprintf("%s: %s", strings.ToUpper(string(a.Verdict.Bound)), a.Verdict.Message))
	for _, line := range a.Verdict.Evidence {
		paragraph(w, 2, 2, "- "+line)
	}
	fmt.Fprintln(w)
	for i := range a.Breakdowns {
		breakdown(w, &a.Breakdowns[i])
	}
	limits(w, a.Limit)
	model(w, a.Model)
	fmt.Fprintln(w, "overheads")
	for _, l := range a.Overheads {
		paragraph(w, 2, 2, "- "+l.Message)
	}
	fmt.Fprintln(w)
	if len(a.OverTime) > 0 {
		fmt.Fprintln(w, "why the transport is not faster, from its own counters")
		for _, c := range a.OverTime {
			paragraph(w, 2, 2, "- "+c.Message)
		}
		fmt.Fprintln(w)
	}
	stalls(w, a)
	predictions(w, c.Predictions)
	if detail || counted(a) {
		events(w, a)
	}
	for _, line := range a.Missing {
		paragraph(w, 0, 2, "missing: "+line)
	}
	writeFindings(w, a.Findings)
}

// stalls writes the longest stalls, and how much time each cause took.
func stalls(w io.Writer, a *analyze.Analysis) {
	s := a.Stalls
	if s == nil {
		return
	}
	var parts []string
	for _, c := range slices.SortedFunc(maps.Keys(s.Causes), func(x, y result.Cause) int { return cmp.Compare(s.Causes[y], s.Causes[x]) }) {
		parts = append(parts, fmt.Sprintf("%s %s", analyze.CauseText(c), format.Time(s.Causes[c])))
	}
	paragraph(w, 0, 2, fmt.Sprintf("%s in %s, %s: %s", format.Count(s.Count, "stall"), format.Count(a.Repeats, "window"),
		format.Time(s.Total), strings.Join(parts, "; ")))
	for _, one := range s.Longest {
		paragraph(w, 2, 2, "- "+one.Message)
	}
	fmt.Fprintln(w)
}

func breakdown(w io.Writer, b *analyze.Breakdown) {
	t := newTable(w, b.Name, ">mean", ">share", "").wrap(20, "")
	for _, p := range b.Parts {
		t.AppendRow(table.Row{p.Label(), format.Time(p.Mean), portion(p.Share), p.Help})
	}
	t.AppendRow(table.Row{"whole", format.Time(b.Whole), portion(1), ""})
	fmt.Fprintln(w, b.Title)
	t.Render()
	if b.Note != "" {
		paragraph(w, 0, 2, b.Note)
	}
	fmt.Fprintln(w)
}

func limits(w io.Writer, l *analyze.Limit) {
	if l == nil {
		return
	}
	fmt.Fprintf(w, "the limit: measured %s, %.0f%% of the possible %s (%s)\n",
		format.Rate(l.Measured), 100*l.Share, format.Rate(l.Throughput), l.Bounds[0].Name)
	t := newTable(w, "bound", ">at most", "").wrap(20, "")
	for _, b := range l.Bounds {
		t.AppendRow(table.Row{b.Name, format.Rate(b.Throughput), text.WrapSoft(b.Message, 64)})
	}
	t.Render()
	fmt.Fprintln(w)
}

func model(w io.Writer, m *analyze.Model) {
	if m == nil {
		return
	}
	fmt.Fprintln(w, "the model: where a call of a closed loop spends its time")
	paragraph(w, 2, 2, fmt.Sprintf("- %s in the client, %s in the daemon, %s elsewhere; %d x %s with %d in flight each",
		format.Time(m.ClientTime), format.Time(m.DaemonTime), format.Time(m.Delay), m.CallingRanks, format.Count(m.Clients, "client"), m.InFlight))
	if m.Expected > 0 {
		paragraph(w, 2, 2, fmt.Sprintf("- %.0f%% of the requests are remote and take %s, the others %s: expected %s per client, measured %s (%+.1f%%)",
			100*m.RemoteShare, format.Time(m.Remote), format.Time(m.Local), format.Rate(m.Expected), format.Rate(m.Measured), 100*(m.Measured/m.Expected-1)))
	}
	fmt.Fprintln(w)
}

func predictions(w io.Writer, list []analyze.Prediction) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "what if")
	for _, p := range list {
		paragraph(w, 2, 2, "- "+p.Message+measuredNote(p))
	}
	fmt.Fprintln(w)
}

// measuredNote compares a prediction with the measurement, if the set has one.
func measuredNote(p analyze.Prediction) string {
	if p.MeasuredAfter == nil {
		return ""
	}
	return fmt.Sprintf("; the set measured %s (the prediction is %+.0f%% off)", format.Value(*p.MeasuredAfter), 100*(p.Throughput/p.MeasuredAfter.Median-1))
}

// The columns of the tables of events.
var (
	hardware = []string{"cycles", "instructions", "branch_misses", "cache_references", "cache_misses", "l1d_load_misses", "llc_loads", "llc_load_misses"}
	software = []string{"voluntary_switches", "involuntary_switches", "migrations", "minor_faults", "major_faults"}
)

// Events writes what the kernel and the processor counted on each polling
// thread. Without hardware counters it writes the reason.
func Events(w io.Writer, r *result.Result) {
	if a, err := analyze.Results([]*result.Result{r}); err == nil { // else there is no complete window
		fmt.Fprintln(w)
		events(w, a)
	}
}

// counted reports whether there are hardware counters.
func counted(a *analyze.Analysis) bool {
	return slices.ContainsFunc(a.Threads, func(e analyze.ThreadEvents) bool { return len(e.PerOp) > 0 })
}

func events(w io.Writer, a *analyze.Analysis) {
	t := newTable(w, "thread", ">voluntary/s", ">involuntary/s", ">migrations/s", ">minor faults/s", ">major faults/s")
	for i := range a.Threads {
		row := table.Row{threadName(&a.Threads[i])}
		for _, name := range software {
			row = append(row, format.Digits(a.Threads[i].PerSecond[name]))
		}
		t.AppendRow(row)
	}
	t.Render()
	fmt.Fprintln(w)
	if !counted(a) {
		paragraph(w, 0, 2, "no hardware counters: "+a.NoCounters)
		fmt.Fprintln(w)
		return
	}
	t = newTable(w, "per op of the thread", ">IPC", ">cycles", ">instr", ">branch miss", ">cache ref", ">cache miss", ">L1d miss", ">LLC load", ">LLC miss")
	for i := range a.Threads {
		e := &a.Threads[i]
		row := table.Row{threadName(e), "-"}
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
		t.AppendRow(row)
	}
	t.Render()
	fmt.Fprintln(w)
}

func threadName(e *analyze.ThreadEvents) string { return fmt.Sprintf("rank %d %s", e.Rank, e.Thread) }

func writeFindings(w io.Writer, list []result.Finding) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no findings against these figures")
	}
	for _, f := range list {
		paragraph(w, 0, 2, fmt.Sprintf("%s: %s: %s", f.Severity, f.Name, f.Message))
	}
}

// overview writes one row per cell, and what is predicted.
func overview(w io.Writer, cells []AnalyzedCell) {
	analyzed := 0
	t := newTable(w, "cell", ">throughput", ">of its limit", "bound by", "").wrap(16, "")
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
		t.AppendRow(table.Row{text.WrapSoft(c.Cell, 30), throughput, share, string(c.Analysis.Verdict.Bound), text.WrapSoft(c.Analysis.Verdict.Why, 30)})
	}
	if analyzed > 0 {
		t.Render()
		if slices.ContainsFunc(cells, func(c AnalyzedCell) bool { return len(c.Windows) > 0 }) {
			fmt.Fprintln(w, "the figures are over the windows of all states of the machine; diff compares within each")
		}
		fmt.Fprint(w, "--cell selects one, which is then explained in full\n\n")
	}
	for i := range cells {
		c := &cells[i]
		switch {
		case c.Status == set.Published:
		case c.Analysis == nil:
			paragraph(w, 0, 2, fmt.Sprintf("%s: %s: %s", c.Cell, c.Status, c.Reason))
		}
	}
	for i := range cells {
		for _, p := range cells[i].Predictions {
			paragraph(w, 0, 2, fmt.Sprintf("what if: %s: %s%s", cells[i].Cell, p.Message, measuredNote(p)))
		}
	}
}
