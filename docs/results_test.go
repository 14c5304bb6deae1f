package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/result"
)

func resultsPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("results.md")
	require.NoError(t, err)
	return string(text)
}

// TestDocumentedMetrics holds the table of metrics to their definitions, in
// their order.
func TestDocumentedMetrics(t *testing.T) {
	var documented, actual []string
	_, table, found := strings.Cut(resultsPage(t), "| metric | unit | better | meaning |\n|---|---|---|---|\n")
	require.True(t, found, "results.md has no table of metrics")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		documented = append(documented, strings.TrimSpace(line))
	}
	for _, d := range result.Definitions {
		actual = append(actual, fmt.Sprintf("| `%s` | %s | %s | %s |", d.Name, d.Unit, d.Better, d.Help))
	}
	require.Equal(t, actual, documented)
}

// TestDocumentedFields finds fields of the schema that the page leaves out.
func TestDocumentedFields(t *testing.T) {
	var schema struct {
		Defs map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(result.Schema(), &schema))
	require.NotEmpty(t, schema.Defs)
	page := resultsPage(t)
	for name, def := range schema.Defs {
		for field := range def.Properties {
			require.Contains(t, page, "`"+field+"`", "results.md does not explain %s of %s", field, name)
		}
	}
	require.Contains(t, page, "`"+result.SchemaVersion+"`")
}
