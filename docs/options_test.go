package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

// plain are the forms of values that a default shows.
var plain = strings.Fields("string int float bool duration size name")

// optionsTable returns the table of the options of a run.
func optionsTable() string {
	var table strings.Builder
	fmt.Fprint(&table, "<!-- options -->\n| option | default (range) | meaning |\n|---|---|---|\n")
	for _, f := range config.Fields() {
		option, values, meaning := "--"+f.Name, f.Default, f.Help
		if !slices.Contains(plain, f.Form) {
			option += " " + f.Form
		}
		// The help names the values of an option that has a list of them.
		if r := f.Range(); strings.Contains(r, " to ") {
			values += " (" + r + ")"
		}
		if beside := f.Beside(); beside != "" {
			meaning += "; " + beside
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", option, values, meaning)
	}
	fmt.Fprint(&table, "<!-- end of options -->")
	return table.String()
}

// profilesTable returns the table of profiles with the options that differ from their defaults.
func profilesTable() string {
	defaults := map[string]string{}
	for _, f := range config.Fields() {
		defaults[f.Name] = f.Default
	}
	var table strings.Builder
	fmt.Fprint(&table, "<!-- profiles -->\n| profile | load | options |\n|---|---|---|\n")
	for _, p := range config.Profiles() {
		var sets []string
		for option, value := range p.Set {
			if value != defaults[option] {
				sets = append(sets, "`"+option+"="+value+"`")
			}
		}
		slices.Sort(sets)
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", p.Name, p.Summary, strings.Join(sets, " "))
	}
	fmt.Fprint(&table, "<!-- end of profiles -->")
	return table.String()
}

// TestOptionsTable compares the tables of options and of profiles with those of the program. With
// -update it rewrites them.
func TestOptionsTable(t *testing.T) {
	const document = "options.md"
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	block := regexp.MustCompile(`(?s)<!-- options -->\n.*?<!-- end of profiles -->`).FindString(
		string(text))
	require.NotEmpty(t, block)
	between := "\n\n## Profiles\n\n"
	want := optionsTable() + between + profilesTable()
	if *update {
		require.NoError(t, os.WriteFile(document,
			[]byte(strings.Replace(string(text), block, want, 1)), 0o644))
		return
	}
	require.Equal(t, want, block, "go test ./docs -run %s -update", t.Name())
}
