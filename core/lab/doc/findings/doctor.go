package findings

import (
	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/doctor"
)

// nameOf returns the name of a finding, with that of its host if there are several.
func nameOf(f doctor.Finding) string {
	if f.Host != "" {
		return f.Host + ": " + f.Name
	}
	return f.Name
}

// Doctor returns what doctor found, and remedies for what is not OK.
func Doctor(findings []doctor.Finding) *doc.Doc {
	out := new(doc.Doc)
	t := doc.NewTable("", "what", "found").Wrap(20, "found")
	wrong := 0
	for _, f := range findings {
		t.Row(f.Status, nameOf(f), f.Value)
		if f.Status != doctor.OK {
			wrong++
		}
	}
	out.Add(t)
	if wrong == 0 {
		out.Line("\nNothing to fix.")
		return out
	}
	for _, status := range []doctor.Status{doctor.Bad, doctor.Warn, doctor.Note} {
		for _, f := range findings {
			if f.Status != status {
				continue
			}
			out.Line("\n%s: %s: %s\n  %s", f.Status, nameOf(f), f.Value, f.Meaning)
			if f.Remedy != "" {
				out.Line("  Remedy: %s", f.Remedy)
			}
		}
	}
	return out
}
