package present

import (
	"io"

	"transportbench/core/base/config"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Profiles writes one row for each profile.
func Profiles(w io.Writer, profiles []config.Profile) {
	t := newTable(w, "name", "load")
	for _, p := range profiles {
		t.AppendRow(table.Row{p.Name, p.Summary})
	}
	t.Render()
}
