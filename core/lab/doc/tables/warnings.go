package tables

import (
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// GroupedWarnings returns the failed checks of cells, each once with the cells that it concerns.
func GroupedWarnings(list []set.GroupedWarning) *doc.Doc {
	out := new(doc.Doc)
	for i := range list {
		d := &list[i]
		var parts []string
		if len(d.Sides) > 0 {
			parts = append(parts, strings.Join(d.Sides, " and "))
		}
		out.Finding(doc.Note, d.Severity,
			strings.Join(append(parts, d.Check, someOf(d.Cells), d.Message), ": "))
	}
	return out
}

// FewWarnings returns the first failed checks, which are the worst, and the others in a fold.
func FewWarnings(list []set.GroupedWarning) *doc.Doc {
	out, first := new(doc.Doc), new(few)
	for _, d := range list {
		first.add(SeverityOf(d.Check, d.Severity), GroupedWarnings([]set.GroupedWarning{d}))
	}
	first.write(out, "failed check")
	return out
}

// SeverityOf returns the severity of a failed check beside the figures of a cell. That of the
// stages concerns the table of stages alone.
func SeverityOf(check string, severity result.Severity) result.Severity {
	if check == "stages" && severity == result.Warning {
		return result.Info
	}
	return severity
}

// someOf returns the first names of a list and the number of others.
func someOf(names []string) string {
	const limit = 3
	if more := len(names) - limit; more > 0 {
		return strings.Join(names[:limit], ", ") + " and " + format.Count(more, "other")
	}
	return strings.Join(names, ", ")
}
