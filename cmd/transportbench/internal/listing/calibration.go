package listing

import (
	"fmt"
	"strconv"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/study/calibrate"
)

// CalibrationPlan returns what a calibration measures.
func CalibrationPlan(p *calibrate.Plan) *doc.Doc {
	out := new(doc.Doc)
	t := doc.NewTable("experiment", ">cells", ">rounds", ">process starts", ">takes about")
	for i := range p.Experiments {
		e := &p.Experiments[i]
		t.Row(e.Name, len(e.Cells), e.Rounds, len(e.Cells)*e.Rounds, format.Left(e.Expected()))
	}
	out.Add(t)
	out.Line("\n%s", CalibrationSummary(p))
	return out
}

// CalibrationSummary returns the size and the expected time of a calibration in one line.
func CalibrationSummary(p *calibrate.Plan) string {
	return fmt.Sprintf("%s process starts, about %s", thousands(p.Launches()),
		format.Left(p.Expected()))
}

// thousands formats a number of at most six digits with a comma: 12,345.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
