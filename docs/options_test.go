package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

// optionsTable returns the table of the options of a run.
func optionsTable() string {
	var table strings.Builder
	fmt.Fprint(&table,
		"<!-- options -->\n| option | value | default | range | | beside others "+
			"|\n|---|---|---|---|---|---|\n")
	for _, f := range config.Fields() {
		fmt.Fprintf(&table, "| `--%s` | %s | %s | %s | %s | %s |\n", f.Name, f.Form, f.Default,
			strings.TrimPrefix(f.Range(), "any"), f.Help, f.Beside())
	}
	fmt.Fprint(&table, "<!-- end of options -->")
	return table.String()
}

// TestOptionsTable compares the table with that of the program. With -update it rewrites the table.
func TestOptionsTable(t *testing.T) {
	const document = "options.md"
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	block := regexp.MustCompile(`(?s)<!-- options -->\n.*?<!-- end of options -->`).FindString(
		string(text))
	require.NotEmpty(t, block)
	if *update {
		require.NoError(t, os.WriteFile(document,
			[]byte(strings.Replace(string(text), block, optionsTable(), 1)), 0o644))
		return
	}
	require.Equal(t, optionsTable(), block, "go test ./docs -run %s -update", t.Name())
}
