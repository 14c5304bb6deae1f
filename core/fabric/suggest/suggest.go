package suggest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"transportbench/core/transport"
)

// For returns `; did you mean "x"?` with the known name that starts with name or is closest to it,
// or an empty string if no known name is close.
func For(name string, known []string) string {
	best, bestDistance := "", len(name)/3+2
	for _, k := range known {
		d := editDistance(name, k)
		if len(name) >= 3 && strings.HasPrefix(k, name) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// ParseOptions is [transport.ParseOptions] with a suggestion in the errors.
func ParseOptions(schema []transport.Option, raw map[string]string) (transport.Values, error) {
	values, err := transport.ParseOptions(schema, raw)
	var wrong *transport.OptionError
	if !errors.As(err, &wrong) {
		return values, err
	}
	at := slices.IndexFunc(schema, func(o transport.Option) bool { return o.Name == wrong.Option })
	if at >= 0 {
		wrong.Problem += For(raw[wrong.Option], schema[at].Allowed)
		return values, err
	}
	var names []string
	for _, o := range schema {
		names = append(names, o.Name)
	}
	wrong.Problem += For(wrong.Option, names)
	return values, err
}

// editDistance returns the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
