package terminal

import (
	"fmt"
	"io"
	"time"

	"github.com/cheggaaa/pb/v3"

	"transportbench/core/base/printable"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/format"
)

// CalibrationProgress shows a calibration: a bar on a terminal, else a line for each experiment.
// Other output to the same stream must go through its Write.
type CalibrationProgress struct {
	screen
	bar    *pb.ProgressBar
	status experiment.Status
	at     time.Time // of status
}

// NewCalibrationProgress returns a CalibrationProgress that writes to out.
func NewCalibrationProgress(out io.Writer) *CalibrationProgress {
	return &CalibrationProgress{screen: newScreen(out)}
}

// Begin shows the launch that begins. It returns the observer of that.
func (p *CalibrationProgress) Begin(s experiment.Status) runner.Observer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width == nil && s.Label != p.status.Label {
		fmt.Fprintf(p.out, "%s: %s, %s left\n", s.Label, format.Count(s.Repeats, "round"),
			format.Left(s.Left))
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
		Set("what", printable.Text(fmt.Sprintf("%s: round %d of %d", s.Label, s.Repeat,
			s.Repeats))).
		Set("figures", "").
		Set("left", format.Left(max(0, s.Left-time.Since(p.at)))).
		SetCurrent(int64(max(0, s.Run-1))).
		Write()
	p.drawn = true
}
