package present

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
	"transportbench/core/lab/runner"
	"transportbench/core/lab/sweep"
)

// SweepProgress shows how a sweep goes: a line for each cell that is done, and
// on a terminal one below that is written over. It implements [sweep.Watcher],
// and is the writer for whatever else goes to the same place.
type SweepProgress struct {
	mu    sync.Mutex
	out   io.Writer
	width func() int // of the terminal; nil where out is none
	state sweep.Status
	at    time.Time // when state was told
	drawn bool
	round int
}

// NewSweepProgress begins to show a sweep on out.
func NewSweepProgress(out io.Writer) *SweepProgress {
	// What is a terminal, and how wide, is as for one run.
	return &SweepProgress{out: out, width: NewProgress(out, "").width}
}

// Begin implements [sweep.Watcher].
func (p *SweepProgress) Begin(s sweep.Status) runner.Observer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.at = s, time.Now()
	if p.width == nil && s.Repeat != p.round {
		p.round = s.Repeat
		fmt.Fprintf(p.out, "repeat %d of %d, %s left\n", s.Repeat, s.Repeats, Left(s.Left))
	}
	p.draw("")
	return p
}

// Progress implements [runner.Observer].
func (p *SweepProgress) Progress(s runner.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.OpsPerSec > 0 {
		p.draw(", " + Figures(s))
	}
}

func (p *SweepProgress) draw(figures string) {
	if p.width == nil {
		return
	}
	s := p.state
	line := fmt.Sprintf("[%d/%d] %s left: %s, repeat %d of %d%s", s.Run, s.Runs,
		Left(max(0, s.Left-time.Since(p.at))), s.Label, s.Repeat, s.Repeats, figures)
	if most := p.width() - 1; len(line) > most {
		line = line[:max(most, 0)]
	}
	fmt.Fprintf(p.out, "\r%s\x1b[K", line)
	p.drawn = true
}

// Cell implements [sweep.Watcher].
func (p *SweepProgress) Cell(s sweep.Status, c *set.Cell) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	text := string(c.Status) + ": " + c.Reason
	if c.Status == set.Measured {
		text = summaryOf(c)
	}
	fmt.Fprintf(p.out, "%s: %s (%d of %d)\n", s.Label, text, s.Done, s.Cells)
}

func summaryOf(c *set.Cell) string {
	var parts []string
	for _, name := range []string{result.Throughput, result.LatencyP50, result.LatencyP99} {
		if values := c.Samples[name]; len(values) > 0 {
			parts = append(parts, name+" "+format.Value(result.Summarize(name, values)))
		}
	}
	if n := len(c.Warnings); n > 0 {
		parts = append(parts, doubts(c))
	}
	return strings.Join(parts, ", ")
}

// doubts counts the failed checks by severity.
func doubts(c *set.Cell) string {
	var severities []result.Severity
	for _, d := range c.Warnings {
		severities = append(severities, d.Severity)
	}
	return trust(severities, c.Incomplete)
}

// Write implements [io.Writer]: the text gets lines of its own.
func (p *SweepProgress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.out.Write(text)
}

// Close removes the line.
func (p *SweepProgress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *SweepProgress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// Plan lists the cells of a sweep before it starts.
func Plan(w io.Writer, p *sweep.Plan) {
	cells := make([]set.Cell, len(p.Cells))
	for i := range p.Cells {
		cells[i].Config = p.Cells[i].Flat()
	}
	varying := set.Varying(cells)
	t := newTable(w, "cell", "configuration", "a repeat takes")
	rightAlign(t, 1, 3)
	for i := range p.Cells {
		takes := "about " + Left(p.Cells[i].Expected())
		if reason := p.Cells[i].Unavailable; reason != "" {
			takes = "unavailable: " + reason
		}
		t.AppendRow(table.Row{i + 1, cells[i].Label(varying), takes})
	}
	t.Render()
	fmt.Fprintln(w)
}

// PlanSummary says in one line how large a sweep is and how long it takes.
func PlanSummary(p *sweep.Plan) string {
	return fmt.Sprintf("%s, %s each (%s), about %s", format.Count(len(p.Cells), "cell"), format.Count(p.Repeats, "repeat"), p.Order, Left(p.Expected()))
}

// Set writes one row for each cell of a set.
func Set(w io.Writer, s *set.Set) {
	varying := set.Varying(s.Cells)
	t := newTable(w, "cell", "provider", "throughput", "95% interval", "p50", "p99", "p50/floor", "checks")
	rightAlign(t, 3, 4, 5, 6, 7)
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Status != set.Measured && c.Status != set.Published {
			t.AppendRow(table.Row{c.Label(varying), c.Plugin.Provider, "-", "-", "-", "-", "-", string(c.Status)})
			continue
		}
		t.AppendRow(table.Row{c.Label(varying), c.Plugin.Provider,
			sampled(c, result.Throughput, format.Value), sampled(c, result.Throughput, format.Interval),
			sampled(c, result.LatencyP50, format.Value), sampled(c, result.LatencyP99, format.Value),
			sampled(c, result.FloorRatio, format.Value), doubts(c)})
	}
	t.Render()
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Reason != "" {
			fmt.Fprintf(w, "%s: %s: %s\n", c.Label(varying), c.Status, c.Reason)
		}
	}
}

func sampled(c *set.Cell, metric string, show func(result.Metric) string) string {
	values := c.Samples[metric]
	if len(values) == 0 {
		return "-"
	}
	return show(result.Summarize(metric, values))
}
