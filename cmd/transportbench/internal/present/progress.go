package present

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/cheggaaa/pb/v3"
	"golang.org/x/sys/unix"

	"transportbench/core/lab/result/format"
	"transportbench/core/lab/runner"
)

// Progress shows how a run goes: as one line that is written over on a
// terminal, and as plain lines elsewhere. It implements [runner.Observer], and
// is the writer for whatever else goes to the same place meanwhile.
type Progress struct {
	label string

	mu    sync.Mutex
	out   io.Writer
	width func() int // of the terminal; nil where out is none
	bar   *pb.ProgressBar
	last  runner.Status

	figures string // on the bar
}

// NewProgress begins to show a run on out.
func NewProgress(out io.Writer, label string) *Progress {
	p := &Progress{label: label, out: out}
	if f, ok := out.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		if terminalWidth(f) > 0 {
			p.width = func() int { return terminalWidth(f) }
		}
	}
	return p
}

// terminalWidth returns 0 where f is no terminal.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	const usual = 80 // for a terminal that does not tell
	if size.Col == 0 {
		return usual
	}
	return int(size.Col)
}

// barTemplate fills the line: the bar takes what the texts leave.
const barTemplate = `{{string . "what"}} {{bar . "[" "=" ">" " " "]"}} {{string . "figures"}}{{string . "left"}} left`

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

// draw writes the line anew.
func (p *Progress) draw(s runner.Status) {
	if p.bar == nil {
		p.bar = pb.New64(int64(s.Left)).SetTemplateString(barTemplate).SetWriter(p.out)
		p.bar.Set(pb.Static, true) // it draws when told, not by a clock of its own
		p.bar.Set(pb.Terminal, true).Set(pb.ReturnSymbol, "\r")
		p.bar.Start()
	}
	if s.OpsPerSec > 0 { // else the line keeps those of before, and its shape
		p.figures = Figures(s) + ", "
	}
	p.bar.SetWidth(p.width()).
		Set("what", p.label+": "+stepName(s)).
		Set("figures", p.figures).
		Set("left", Left(s.Left)).
		SetCurrent(p.bar.Total() - int64(s.Left)).
		Write()
}

// print writes a line where a phase begins, and where a repeat ends.
func (p *Progress) print(s runner.Status) {
	if s.Step == p.last.Step && s.Repeat == p.last.Repeat {
		return
	}
	switch {
	case p.last.Step != runner.StepRepeat:
	case s.Step == runner.StepClose: // a whole one is followed by a probe of the floor
		fmt.Fprintf(p.out, "%s: %s ended early\n", p.label, stepName(p.last))
	default:
		figures := ""
		if p.last.OpsPerSec > 0 { // a short repeat is over before anybody says how it goes
			figures = ", lately " + Figures(p.last)
		}
		fmt.Fprintf(p.out, "%s: %s done%s\n", p.label, stepName(p.last), figures)
	}
	if s.Step == runner.StepLaunch || s.Step == runner.StepWarmup || s.Step == runner.StepRepeat {
		fmt.Fprintf(p.out, "%s: %s\n", p.label, stepName(s))
	}
}

// Figures writes throughput and latency as they were of late.
func Figures(s runner.Status) string {
	return fmt.Sprintf("%s, p50 %s, p99 %s", format.Rate(s.OpsPerSec), format.Time(s.P50), format.Time(s.P99))
}

func stepName(s runner.Status) string {
	if s.Repeat > 0 {
		return fmt.Sprintf("repeat %d of %d", s.Repeat, s.Repeats)
	}
	return s.Step
}

// Write implements [io.Writer]: the text gets lines of its own.
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.out.Write(text)
}

// Close removes the line.
func (p *Progress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.clear()
		p.bar = nil
	}
}

func (p *Progress) clear() {
	if p.bar != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
