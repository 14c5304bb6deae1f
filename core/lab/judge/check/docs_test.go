package check

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocumentedChecks compares the table in docs/results.md with the checks, in order.
func TestDocumentedChecks(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/results.md")
	require.NoError(t, err)
	var documented, actual [][2]string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (info|warning|error) \\|").
		FindAllSubmatch(text, -1) {
		documented = append(documented, [2]string{string(row[1]), string(row[2])})
	}
	for _, c := range checks {
		actual = append(actual, [2]string{c.name, string(c.severity)})
	}
	require.Equal(t, actual, documented)
}
