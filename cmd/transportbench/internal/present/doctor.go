package present

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/doctor"
)

// Findings writes what the machine is like, and then what to do about that
// which is not as it should be.
func Findings(w io.Writer, findings []doctor.Finding) {
	t := newTable(w, "", "what", "found")
	wrong := 0
	for _, f := range findings {
		t.AppendRow(table.Row{f.Status, f.Name, f.Value})
		if f.Status != doctor.OK {
			wrong++
		}
	}
	t.Render()
	if wrong == 0 {
		fmt.Fprintln(w, "\nNothing to mend.")
		return
	}
	for _, status := range []doctor.Status{doctor.Bad, doctor.Warn, doctor.Note} {
		for _, f := range findings {
			if f.Status != status {
				continue
			}
			fmt.Fprintf(w, "\n%s: %s: %s\n  %s\n", f.Status, f.Name, f.Value, f.Meaning)
			if f.Remedy != "" {
				fmt.Fprintf(w, "  Remedy: %s\n", f.Remedy)
			}
		}
	}
}
