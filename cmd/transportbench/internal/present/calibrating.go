package present

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/cheggaaa/pb/v3"
	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/base/printable"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/experiment/sweep"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/study/calibrate"
)

// CalibrationPlan writes what a calibration measures.
func CalibrationPlan(w io.Writer, p *calibrate.Plan) {
	t := newTable(w, "experiment", ">cells", ">rounds", ">launches", ">takes about")
	for i := range p.Experiments {
		e := &p.Experiments[i]
		t.AppendRow(table.Row{e.Name, len(e.Cells), e.Rounds, len(e.Cells) * e.Rounds, Left(e.Expected())})
	}
	t.Render()
	fmt.Fprintf(w, "\n%s\n", CalibrationSummary(p))
}

// CalibrationSummary returns the size and the expected time of a calibration in one line.
func CalibrationSummary(p *calibrate.Plan) string {
	return fmt.Sprintf("%s launches, about %s", thousands(p.Launches()), Left(p.Expected()))
}

// CalibrationLeft returns what is left of a calibration that is resumed in one line.
func CalibrationLeft(p *calibrate.Plan, launches int, left time.Duration) string {
	return fmt.Sprintf("%s of %s launches left, about %s of %s",
		thousands(launches), thousands(p.Launches()), Left(left), Left(p.Expected()))
}

// thousands formats a number of at most six digits with a comma: 12,345.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// CalibrationProgress shows a calibration: a bar on a terminal, else a line for each experiment. Other
// output to the same stream must go through its Write.
type CalibrationProgress struct {
	screen
	bar    *pb.ProgressBar
	status sweep.Status
	at     time.Time // of status
}

// NewCalibrationProgress returns a CalibrationProgress that writes to out.
func NewCalibrationProgress(out io.Writer) *CalibrationProgress {
	return &CalibrationProgress{screen: newScreen(out)}
}

// Begin shows the launch that begins. It returns the observer of that.
func (p *CalibrationProgress) Begin(s sweep.Status) runner.Observer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width == nil && s.Label != p.status.Label {
		fmt.Fprintf(p.out, "%s: %s, %s left\n", s.Label, format.Count(s.Repeats, "round"), Left(s.Left))
	}
	p.status, p.at = s, time.Now()
	p.draw()
	return p
}

// Progress implements [runner.Observer].
func (p *CalibrationProgress) Progress(runner.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw()
}

func (p *CalibrationProgress) draw() {
	if p.width == nil {
		return
	}
	s := p.status
	if p.bar == nil {
		p.bar = newBar(p.raw, int64(s.Runs))
	}
	p.bar.SetWidth(p.width()).
		Set("what", printable.Text(fmt.Sprintf("%s: round %d of %d", s.Label, s.Repeat, s.Repeats))).
		Set("figures", "").
		Set("left", Left(max(0, s.Left-time.Since(p.at)))).
		SetCurrent(int64(max(0, s.Run-1))).
		Write()
	p.drawn = true
}
