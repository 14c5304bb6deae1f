package present

import (
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/workload"
)

// Profiles writes one row for each profile.
func Profiles(w io.Writer, profiles []workload.Profile) {
	t := newTable(w, "name", "load")
	for _, p := range profiles {
		t.AppendRow(table.Row{p.Name, p.Summary})
	}
	t.Render()
}
