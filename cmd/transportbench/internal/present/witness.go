package present

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
)

// witnessRatio returns how many times a cell took what its witness took.
func witnessRatio(c *set.Cell) string {
	for _, metric := range []string{result.WitnessRatio, result.WitnessTimeRatio} {
		if text := sampled(c, metric, format.Value); text != "-" {
			return text
		}
	}
	return "-"
}

// Witnesses writes which benchmark ran beside each result, and why readings are missing. It writes
// nothing for results without one.
func Witnesses(w io.Writer, results []*result.Result) {
	for _, r := range results {
		if r.Witness == nil {
			continue
		}
		text := "no witness"
		if r.Witness.Tool != "" {
			text = fmt.Sprintf("witness %s %s: %s", r.Witness.Tool, r.Witness.Version, strings.Join(r.Witness.Client, " "))
		}
		if r.Witness.Missing != "" {
			text += "; " + r.Witness.Missing
		}
		fmt.Fprintf(w, "%s %s: %s\n", r.Plugin.Name, cmp.Or(r.Config.Profile, "run"), text)
	}
}
