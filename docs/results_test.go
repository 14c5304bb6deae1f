package docs_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

func resultsPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("results.md")
	require.NoError(t, err)
	return string(text)
}

// TestDocumentedMetrics compares the table of metrics with their definitions, in order.
func TestDocumentedMetrics(t *testing.T) {
	var documented []string
	_, table, found := strings.Cut(resultsPage(t),
		"| metric | unit | better | meaning |\n|---|---|---|---|\n")
	require.True(t, found, "results.md has no table of metrics")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		columns := strings.Split(strings.Trim(line, "| \n"), " | ")
		require.Len(t, columns, 4, line)
		name := strings.Trim(columns[0], "`")
		d := result.Define(name)
		require.Equal(t, []string{"`" + name + "`", d.Unit, string(d.Better), d.Help}, columns)
		documented = append(documented, name)
	}
	var defined []string
	for _, d := range result.Definitions {
		defined = append(defined, d.Name)
	}
	require.Equal(t, defined, documented)
}

// TestDocumentedFields checks that the page explains every field of the schema.
func TestDocumentedFields(t *testing.T) {
	var schema struct {
		Defs map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	text, err := os.ReadFile("../core/lab/store/result/schema.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &schema))
	require.NotEmpty(t, schema.Defs)
	page := resultsPage(t) + optionsTable() // in which an option of a run has hyphens
	for name, def := range schema.Defs {
		for field := range def.Properties {
			require.True(t, strings.Contains(page, "`"+field+"`") || name == "Config" &&
				strings.Contains(page, "`--"+strings.ReplaceAll(field, "_", "-")+"`"),
				"results.md does not explain %s of %s", field, name)
		}
	}
	require.Contains(t, page, "`"+result.SchemaVersion+"`")
}
