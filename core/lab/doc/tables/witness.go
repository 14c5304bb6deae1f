package tables

import (
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/result"
)

// Witnesses returns which benchmark ran beside each result that had one.
func Witnesses(results []*result.Result) *doc.Doc {
	out := new(doc.Doc)
	for _, r := range results {
		if r.Witness != nil && r.Witness.Tool != "" {
			out.Line("reference tool of %s %s: %s %s: %s", r.Plugin.Name, r.Config.Profile,
				r.Witness.Tool, r.Witness.Version, strings.Join(r.Witness.Client, " "))
		}
	}
	return out
}
