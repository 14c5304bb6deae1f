package doctor

import (
	"fmt"
	"strings"
	"time"

	"transportbench/core/lab/calibrate"
	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
)

// calibration is about the machine's last calibration in the user's state directory.
func (x *examiner) calibration() Finding {
	f := Finding{Name: "calibration", Status: OK}
	const unknown = "It is not known which changes comparisons on this machine find, and how often they report one that is none"
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
	length := "full"
	if d.Quick {
		length = "quick"
	}
	f.Value = fmt.Sprintf("%s (%s), %s, version %s", d.StartedAt.UTC().Format(time.DateOnly), age(x.now().Sub(d.StartedAt)), length, d.Tool.Version)
	if figures := keyFigures(d); figures != "" {
		f.Value += ": " + figures
	}
	f.Meaning = "Comparisons on this machine can be trusted as far as its calibration says: " + strings.Join(d.Summary(), "; ") + "."
	var changed []string
	if d.Tool.Version != x.version {
		changed = append(changed, fmt.Sprintf("version %s, and this is %s", d.Tool.Version, x.version))
	}
	if d.Plugin.RuntimeDigest != x.runtime {
		changed = append(changed, fmt.Sprintf("runtime %.12s, and this has %.12s", d.Plugin.RuntimeDigest, x.runtime))
	}
	switch {
	case len(changed) > 0:
		return f.as(Warn, "It was measured with "+strings.Join(changed, "; ")+", so it may not hold.", "run it again: "+remedy)
	case d.Quick:
		return f.as(Note, "A quick calibration has too few comparisons to bound false verdicts and what is found: "+strings.Join(d.Summary(), "; ")+".",
			"transportbench calibrate")
	}
	return f
}

// age returns how long ago something was, in days.
func age(d time.Duration) string {
	days := int(d.Hours() / 24)
	if days <= 0 {
		return "today"
	}
	return format.Count(days, "day") + " old"
}

// keyFigures returns what a calibration recovered, its false verdicts, and the least change that
// counts.
func keyFigures(d *calibrate.Document) string {
	var parts []string
	promised, kept := 0, 0
	for _, r := range d.Recovery {
		if r.Tolerance > 0 {
			promised++
			if r.Within {
				kept++
			}
		}
	}
	if promised > 0 {
		parts = append(parts, fmt.Sprintf("recovers %d of %d", kept, promised))
	}
	comparisons, wrong := 0, 0
	for _, v := range d.FalseVerdicts {
		comparisons += v.Comparisons
		wrong += v.False
	}
	if comparisons > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d verdicts false", wrong, comparisons))
	}
	const repeats = 20
	if share, ok := d.LeastChange(repeats); ok {
		parts = append(parts, fmt.Sprintf("least change %s with %d repeats", format.Share(share), repeats))
	}
	return strings.Join(parts, ", ")
}
