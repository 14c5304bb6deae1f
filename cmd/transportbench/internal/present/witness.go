package present

import (
	"fmt"
	"io"
	"strings"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
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

// Witnesses writes which benchmark ran beside each result that had one.
func Witnesses(w io.Writer, results []*result.Result) {
	for _, r := range results {
		if r.Witness != nil && r.Witness.Tool != "" {
			fmt.Fprintf(w, "witness of %s %s: %s %s: %s\n", r.Plugin.Name, r.Config.Profile, r.Witness.Tool, r.Witness.Version, strings.Join(r.Witness.Client, " "))
		}
	}
}
