package findings

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// Calibration returns what a calibration found, one table for each question, and the summary.
func Calibration(d *calibration.Document) *doc.Doc {
	out := new(doc.Doc)
	id := &d.Environment.Identity
	out.Heading("Calibration of %s", format.Machine(id.CPU, id.Cores, id.Virtualisation))
	out.Line("%s, transportbench %s, %s, took %s", d.StartedAt.UTC().Format("2006-01-02 15:04 UTC"),
		d.Tool.Version, d.Length(), time.Duration(d.TookS*float64(time.Second)).Round(time.Second))

	c := calibrationText{out}
	c.recovered(d)
	c.observer(d)
	c.resolution(d)
	c.falseVerdicts(d)
	c.power(d)
	c.discarded(d)
	if lines := d.Summary(); len(lines) > 0 {
		c.title("Summary", "")
		for _, line := range lines {
			out.Add(doc.Text{Kind: doc.Item, Text: line})
		}
	}
	return out
}

type calibrationText struct{ *doc.Doc }

// title begins a table. help explains it, in a line.
func (c calibrationText) title(name, help string) {
	c.Gap()
	c.Titled(name, help)
}

func (c calibrationText) recovered(d *calibration.Document) {
	if len(d.Recovery) == 0 {
		return
	}
	c.title("Recovered",
		"what was injected, or follows from it, against what was measured in n windows")
	t := doc.NewTable("quantity", ">known", ">measured", ">95% interval", ">error", ">n",
		"promised")
	for i := range d.Recovery {
		r := &d.Recovery[i]
		number := func(v float64) string { return quantity(v, r.Unit) }
		interval := "-"
		if m := r.Measured; m.Low != nil && r.Unit == "share" {
			interval = m.Interval()
		} else if m.Low != nil {
			interval = narrow(r.Unit, *m.Low, *m.High)
		}
		deviation := "-"
		if r.Known > 0 {
			deviation = format.Percent(new(r.Bias().Value / r.Known))
		}
		t.Row(r.Quantity, number(r.Known), number(r.Measured.Value), interval, deviation, r.Windows,
			promise(r))
	}
	c.Add(t)
}

// quantity formats a value; shares are percentages.
func quantity(v float64, unit string) string {
	if unit == "share" {
		return format.Share(v)
	}
	return format.Number(v, unit)
}

// promise formats the promised error and whether it was kept, such as "3%: yes".
func promise(r *calibration.Recovery) string {
	if r.Tolerance == 0 {
		return "-"
	}
	limit := strings.Replace(quantity(r.Tolerance, r.Unit), ".0 ", " ", 1)
	// A promise is a share of the known value or, where that is less, a time.
	if share := r.Tolerance / r.Known; r.Known > 0 && math.Abs(100*share-math.Round(100*share)) <
		1e-9 && r.Tolerance > 10 {
		limit = format.Share(share)
	}
	switch {
	case r.Within:
		return limit + ": yes"
	case r.Beyond():
		return limit + ": no"
	case r.Measured.Low == nil:
		return limit + ": too few"
	}
	return limit + ": unclear"
}

// narrow is [format.Range] with up to two more digits where its own do not tell the ends apart.
func narrow(unit string, low, high float64) string {
	text := format.Range(result.Metric{Unit: unit, Low: &low, High: &high})
	digits, unit, _ := strings.Cut(format.Number(low, unit), " ")
	shown, err := strconv.ParseFloat(digits, 64)
	if err != nil || shown <= 0 || low <= 0 || high <= low || strings.Count(text, " "+unit) > 1 {
		return text
	}
	scale := math.Pow(10, math.Round(math.Log10(low/shown)))
	_, decimals, _ := strings.Cut(digits, ".")
	needed := int(math.Ceil(-math.Log10((high - low) / scale)))
	if needed <= len(decimals) {
		return text
	}
	needed = min(needed, len(decimals)+2)
	return fmt.Sprintf("%.*f to %.*f %s", needed, low/scale, needed, high/scale, unit)
}

func (c calibrationText) observer(d *calibration.Document) {
	if len(d.Observer) == 0 {
		return
	}
	c.title("Observer effect", "throughput with one of so many operations timed, against none")
	t := doc.NewTable(">timed", ">change", ">95% interval", ">windows")
	for _, o := range d.Observer {
		timed := "all"
		if o.SampleEvery > 1 {
			timed = fmt.Sprintf("1 of %d", o.SampleEvery)
		}
		t.Row(timed, doc.Change(&o.Change.Value), format.Percents(o.Change.Low, o.Change.High),
			o.Windows)
	}
	c.Add(t)
}

func (c calibrationText) resolution(d *calibration.Document) {
	r := &d.Resolution
	if len(r.Trials) == 0 {
		return
	}
	c.title("Resolution", fmt.Sprintf("how often a delay is detected with %d repeats a side",
		r.Repeats))
	t := doc.NewTable(append([]string{">delay"}, trialColumns...)...)
	for _, trial := range r.Trials {
		t.Row(append([]any{format.Time(trial.Known)}, trialRow(trial)...)...)
	}
	c.Add(t)
}

// trialColumns are those of trialRow.
var trialColumns = []string{">trials", ">found", ">share", ">95% interval", ">wrong direction"}

func trialRow(t calibration.Trials) []any {
	return []any{t.Count, t.Found, format.Share(t.Share.Value), t.Share.Interval(), t.Wrong}
}

func (c calibrationText) falseVerdicts(d *calibration.Document) {
	if len(d.FalseVerdicts) == 0 {
		return
	}
	c.title("False verdicts",
		fmt.Sprintf(
			"a configuration compared with itself, %d repeats a side (ab: %d to %d); alpha is %s",
			d.FalseVerdicts[0].Repeats, calibration.FewestABRepeats, d.FalseVerdicts[0].Repeats,
			format.Share(d.Alpha)))
	t := doc.NewTable("method", ">tests", ">comparisons", ">false", ">share", ">95% interval",
		"within alpha", ">beyond "+format.Share(compare.Defaults().Floor))
	for _, f := range d.FalseVerdicts {
		verdict := "no"
		switch low := f.Share.Low; {
		case f.Within:
			verdict = "yes"
		case low != nil && *low <= d.Alpha:
			verdict = "too few"
		}
		t.Row(f.Method, f.Tests, f.Comparisons, f.False, format.Share(f.Share.Value),
			f.Share.Interval(), verdict, f.Beyond)
	}
	c.Add(t)
	if drift := d.Drift; drift != nil {
		c.Line("\nThe machine drifts: diff compares sets %s apart, and only with a minimum effect "+
			"of %s do at most %s of\n"+
			"its comparisons give a verdict. along and ab compare what was measured in turns.",
			drift.Apart(), format.Share(drift.Limit), format.Share(d.Alpha))
	}
}

func (c calibrationText) power(d *calibration.Document) {
	rows := d.Measured()
	if len(rows) == 0 {
		return
	}
	c.title("Power", fmt.Sprintf("trials that detected a change, and that called it (diff, %s): %s",
		format.Share(compare.Defaults().Floor), rows[0].Load))
	t := doc.NewTable("over", ">repeats", ">injected", ">trials", ">detected", ">share",
		">95% interval", ">called", ">wrong direction")
	for _, p := range rows {
		over := p.Class
		if p.Loaded {
			over += ", loaded"
		}
		for _, trial := range p.Trials {
			t.Row(over, p.Repeats, format.Share(trial.Known), trial.Count, trial.Found,
				format.Share(trial.Share.Value), trial.Share.Interval(), trial.Beyond, trial.Wrong)
		}
	}
	c.Add(t)
}

// discarded lists the experiments of which launches were made again.
func (c calibrationText) discarded(d *calibration.Document) {
	var lines []string
	for i := range d.Experiments {
		if e := &d.Experiments[i]; len(e.Discarded) > 0 {
			lines = append(lines, fmt.Sprintf("%s: %s", e.Name,
				strings.Trim(fmt.Sprint(e.Discarded), "[]")))
		}
	}
	if len(lines) == 0 {
		return
	}
	c.title("Made again", "process starts that failed, by cell of an experiment")
	for _, line := range lines {
		c.Add(doc.Text{Kind: doc.Item, Text: line})
	}
}
