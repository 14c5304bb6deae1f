package doctor

import (
	"fmt"
	"strings"
	"time"

	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// calibration is about the machine's last calibration in the user's state directory.
func (x *examiner) calibration() Finding {
	f := Finding{Name: "calibration", Status: OK}
	const unknown = "It is not known which changes comparisons on this machine find, and how " +
		"often they report one that is none"
	const remedy = "transportbench calibrate (--quick takes under two minutes)"
	identity, err := set.Flatten(x.environment.Identity)
	if err != nil {
		f.Value = "not visible"
		return f.as(Note, unknown+": "+err.Error()+".", "")
	}
	found := x.find(identity)
	d := found.Document
	switch {
	case d == nil && len(found.Unused) > 0:
		f.Value = "none that can be used"
		return f.as(Warn, unknown+": "+strings.Join(found.Unused, "; ")+".", remedy)
	case d == nil:
		f.Value = "none on this machine"
		return f.as(Note, unknown+".", remedy)
	}
	f.Value = fmt.Sprintf("%s (%s), version %s, %s", d.StartedAt.UTC().Format(time.DateOnly),
		d.Age(x.now()), d.Tool.Version, d.Length())
	f.Meaning = "Comparisons on this machine can be trusted as far as its calibration says: " +
		strings.Join(d.Summary(), "; ") + "."
	changed := d.Changed(x.version, x.runtime)
	switch {
	case len(changed) > 0:
		return f.as(Warn, "It was measured with "+strings.Join(changed, "; ")+
			", so it may not hold.", "run it again: "+remedy)
	case d.Quick:
		return f.as(Note, "A quick calibration has too few comparisons to bound false verdicts "+
			"and what is found: "+strings.Join(d.Summary(), "; ")+".",
			"transportbench calibrate")
	case d.Drift == nil:
		return f.as(Note, "There is a calibration, "+calibration.DriftUnknown+".",
			"transportbench calibrate")
	case d.Drift.Limit > compare.Defaults().Floor:
		return f.as(Warn, fmt.Sprintf("The machine drifts: of equal sets that were measured %s "+
			"apart, %s differ by no more than %s. diff takes the part of that away which other "+
			"transports share; without four of them only larger changes count.",
			d.Drift.Apart(), format.Share(1-d.Alpha), format.Share(d.Drift.Limit)),
			"compare in turns: transportbench ab, or one sweep and diff --along")
	}
	return f
}
