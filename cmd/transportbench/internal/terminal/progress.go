package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cheggaaa/pb/v3"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"

	"transportbench/core/base/printable"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// screen shows progress on a terminal, as one line that is overwritten, or on
// a plain stream. All methods but clear are safe for concurrent use.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	raw   io.Writer  // what out writes to: the line has control sequences
	width func() int // of the terminal; nil for a plain stream
	drawn bool       // the line is visible
}

func newScreen(out io.Writer) screen {
	var width func() int
	if t := terminalOf(out); t != nil {
		width = t.width
	}
	_, raw := unwrapped(out)
	return screen{out: out, raw: raw, width: width}
}

// terminalOf returns the terminal that w writes to, or nil.
func terminalOf(w io.Writer) *Terminal {
	t, raw := unwrapped(w)
	if t == nil {
		t, _ = OnTerminal(raw).(*Terminal)
	}
	return t
}

// unwrapped returns the innermost of the writers around w, and the [Terminal] among them or nil.
func unwrapped(w io.Writer) (terminal *Terminal, raw io.Writer) {
	for {
		if t, is := w.(*Terminal); is {
			terminal = t
		}
		outer, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return terminal, w
		}
		w = outer.Unwrap()
	}
}

// isTerminal reports whether w is a terminal that can overwrite lines.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && terminalWidth(f) > 0
}

// terminalWidth returns 0 if f is not a terminal.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	const usual = 80 // some terminals report none
	if size.Col == 0 {
		return usual
	}
	return int(size.Col)
}

// Write implements [io.Writer]. It removes the line first, so the text stands
// on lines of its own.
func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	return s.out.Write(text)
}

// Close removes the line.
func (s *screen) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

// clear removes the line. The caller holds mu.
func (s *screen) clear() {
	if s.drawn {
		fmt.Fprint(s.raw, "\r\x1b[K")
		s.drawn = false
	}
}

// Progress shows one run. It implements [runner.Observer]. Other output to the
// same stream must go through its Write.
type Progress struct {
	screen
	label   string
	bar     *pb.ProgressBar
	last    runner.Status
	figures string // on the bar
}

// NewProgress returns a Progress that writes to out.
func NewProgress(out io.Writer, label string) *Progress {
	return &Progress{screen: newScreen(out), label: label}
}

// barTemplate fills the line: the bar takes what the texts leave.
const barTemplate = `{{string . "what"}} {{bar . "[" "=" ">" " " "]"}} {{string . "figures"}}{{string . "left"}} left`

func newBar(out io.Writer, total int64) *pb.ProgressBar {
	bar := pb.New64(total).SetTemplateString(barTemplate).SetWriter(out)
	bar.Set(pb.Static, true) // it draws only when told to
	bar.Set(pb.Terminal, true).Set(pb.ReturnSymbol, "\r")
	return bar.Start()
}

// Progress implements [runner.Observer].
func (p *Progress) Progress(s runner.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width != nil {
		p.draw(s)
	} else {
		p.print(s)
	}
	p.last = s
}

// draw overwrites the line.
func (p *Progress) draw(s runner.Status) {
	if p.bar == nil {
		p.bar = newBar(p.raw, int64(s.Left))
	}
	if s.OpsPerSec > 0 { // else keep the last figures, so the line keeps its shape
		p.figures = Figures(s) + ", "
	}
	p.bar.SetWidth(p.width()).
		Set("what", printable.Text(p.label+": "+stepName(s))).
		Set("figures", p.figures).
		Set("left", format.Left(s.Left)).
		SetCurrent(p.bar.Total() - int64(s.Left)).
		Write()
	p.drawn = true
}

// print writes a line when a step begins and when a repeat ends.
func (p *Progress) print(s runner.Status) {
	if s.Step == p.last.Step && s.Repeat == p.last.Repeat {
		return
	}
	switch {
	case p.last.Step != runner.StepRepeat:
	case s.Step == runner.StepClose: // a probe of the floor follows a complete repeat
		fmt.Fprintf(p.out, "%s: %s ended early\n", p.label, stepName(p.last))
	default:
		figures := ""
		if p.last.OpsPerSec > 0 { // a short repeat ends before its first report
			figures = ", lately " + Figures(p.last)
		}
		fmt.Fprintf(p.out, "%s: %s done%s\n", p.label, stepName(p.last), figures)
	}
	if s.Step == runner.StepLaunch || s.Step == runner.StepWarmup || s.Step == runner.StepRepeat {
		fmt.Fprintf(p.out, "%s: %s\n", p.label, stepName(s))
	}
}

func stepName(s runner.Status) string {
	if s.Repeat > 0 {
		return fmt.Sprintf("repeat %d of %d", s.Repeat, s.Repeats)
	}
	if s.Step == runner.StepLaunch {
		return "process start"
	}
	return s.Step
}

// Figures formats recent throughput and latency.
func Figures(s runner.Status) string {
	return fmt.Sprintf("%s, p50 %s, p99 %s", format.Rate(s.OpsPerSec), format.Time(s.P50),
		format.Time(s.P99))
}

// SweepProgress shows a sweep: a line per finished cell, and on a terminal the
// current repeat. It implements [experiment.Watcher]. Other output to the same
// stream must go through its Write.
type SweepProgress struct {
	screen
	status experiment.Status
	at     time.Time // of status
	round  int
	// calibration has a line for each label on a plain stream; a sweep has one for each round.
	calibration bool
	// standing is the state of a comparison, which is on the line instead of the repeat.
	standing string
}

// NewSweepProgress returns a SweepProgress that writes to out.
func NewSweepProgress(out io.Writer) *SweepProgress {
	return &SweepProgress{screen: newScreen(out)}
}

// NewCalibrationProgress returns a SweepProgress for a calibration.
func NewCalibrationProgress(out io.Writer) *SweepProgress {
	return &SweepProgress{screen: newScreen(out), calibration: true}
}

// Begin implements [experiment.Watcher].
func (p *SweepProgress) Begin(s experiment.Status) runner.Observer {
	p.mu.Lock()
	defer p.mu.Unlock()
	another := s.Label != p.status.Label
	p.status, p.at = s, time.Now()
	switch {
	case p.width != nil:
	case p.calibration && another:
		fmt.Fprintf(p.out, "%s: %s, %s left\n", s.Label, format.Count(s.Repeats, "round"),
			format.Left(s.Left))
	case !p.calibration && s.Repeat != p.round:
		p.round = s.Repeat
		fmt.Fprintf(p.out, "repeat %d of %d, %s left\n", s.Repeat, s.Repeats, format.Left(s.Left))
	}
	p.draw("")
	return p
}

// Progress implements [runner.Observer].
func (p *SweepProgress) Progress(s runner.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.OpsPerSec > 0 && p.width != nil {
		p.draw(" " + Figures(s))
	}
}

func (p *SweepProgress) draw(figures string) {
	if p.width == nil {
		return
	}
	s := p.status
	what := p.standing
	if what == "" {
		what = fmt.Sprintf("%s, repeat %d of %d%s", s.Label, s.Repeat, s.Repeats, figures)
	}
	line := printable.Text(fmt.Sprintf("[%d/%d] %s left: %s", s.Run, s.Runs,
		format.Left(max(0, s.Left-time.Since(p.at))), what))
	fmt.Fprintf(p.raw, "\r%s\x1b[K", text.Trim(line, max(p.width()-1, 0)))
	p.drawn = true
}

// Standing shows the state of a comparison: on the line of a terminal, or as a line of a stream.
func (p *SweepProgress) Standing(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standing = text
	if p.width == nil {
		fmt.Fprintln(p.out, text)
	}
	p.draw("")
}

// Again implements [experiment.Watcher].
func (p *SweepProgress) Again(s experiment.Status, reason, log string) {
	fmt.Fprintf(p, "%s: repeat %d of %d is made once more: %s; see %s\n", s.Label, s.Repeat,
		s.Repeats, reason, log)
}

// Cell implements [experiment.Watcher].
func (p *SweepProgress) Cell(s experiment.Status, c *set.Cell) {
	text, severity := string(c.Status)+": "+c.Reason, result.Error
	switch c.Status {
	case set.Measured:
		text, severity = cellSummary(c)
	case set.Unavailable:
		severity = ""
	}
	d := new(doc.Doc)
	d.Add(doc.Text{Severity: severity,
		Text: fmt.Sprintf("%s: %s (%d of %d)", s.Label, text, s.Done, s.Cells)})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	Print(p.out, d)
}

// shortNames are what stands before the figures of a cell.
var shortNames = map[string]string{
	result.LatencyP50: "p50 ", result.ResponseP50: "response p50 ", result.ResponseP99: "p99 ",
}

// cellSummary returns what was measured of a cell, and the worst of its failed checks.
func cellSummary(c *set.Cell) (text string, worst result.Severity) {
	var parts []string
	names := []string{result.Throughput, result.LatencyP50}
	if c.OpenLoop() {
		names = []string{result.Throughput, result.ResponseP50, result.ResponseP99}
	}
	for _, name := range names {
		if m, known := c.Metric(name); known {
			parts = append(parts, shortNames[name]+format.Value(m))
		}
	}
	if len(c.Warnings) > 0 {
		checks := tables.CellChecks(c)
		parts, worst = append(parts, checks.Text), checks.Severity
	}
	return strings.Join(parts, ", "), worst
}
