package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/set"
	"transportbench/results"
)

// recorded has what reproduce printed, NAME.json for each document that was recorded.
const recorded = "../results/reproduced"

// claims returns the summary of all documents in Markdown.
func claims(t *testing.T) string {
	var table, wrong strings.Builder
	fmt.Fprint(&table, "<!-- claims -->\n"+
		"| document | tables | rows | with a published figure | measured here | not yet recorded "+
		"| need other hardware | with a remark below |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range reproduce.Names(results.Files) {
		d, err := reproduce.Load(results.Files, name)
		require.NoError(t, err)
		c, err := d.Compare(set.New())
		require.NoError(t, err)
		measured := c
		if text, err := os.ReadFile(filepath.Join(recorded, name+".json")); err == nil {
			measured = new(reproduce.Comparison)
			require.NoError(t, json.Unmarshal(text, measured))
		}
		n := count(measured)
		fmt.Fprintf(&table, "| [%s](#%[1]s) | %d | %d | %d | %d | %d | %d | %d |\n", name,
			len(c.Tables), n.rows, n.published, n.measured, n.unrecorded, n.elsewhere,
			n.remarked)
		fmt.Fprintf(&wrong, "\n## %s\n\n%s.\n\n", name, c.Source)
		for _, text := range remarks(c) {
			fmt.Fprintf(&wrong, "- %s\n", text)
		}
		for _, text := range c.Absent {
			fmt.Fprintf(&wrong, "- Not measured here: %s\n", text)
		}
	}
	return table.String() + wrong.String() + "<!-- end of claims -->"
}

// counts has the rows of a document's tables. Those neither measured, unrecorded nor elsewhere are
// ratios of other rows, or have no counterpart here.
type counts struct{ rows, published, measured, unrecorded, elsewhere, remarked int }

func count(c *reproduce.Comparison) (n counts) {
	for i := range c.Tables {
		t := &c.Tables[i]
		for j := range t.Lines {
			l := &t.Lines[j]
			n.rows++
			if l.Theirs.Any() {
				n.published++
			}
			switch {
			case strings.HasPrefix(l.Missing, "needs "):
				n.elsewhere++
			case l.Missing == "not measured":
				n.unrecorded++
			case l.Ours.Any() && !l.Ratio:
				n.measured++
			}
			if slices.ContainsFunc(t.Wrong, func(w set.GroupedWarning) bool {
				return slices.Contains(w.Cells, l.Name)
			}) {
				n.remarked++
			}
		}
	}
	return n
}

// remarks returns what is wrong with a document or differs here, each text once with the rows that
// it is about.
func remarks(c *reproduce.Comparison) (texts []string) {
	seen := map[string]bool{}
	for i := range c.Tables {
		for _, w := range c.Tables[i].Wrong {
			if !seen[w.Message] {
				seen[w.Message] = true
				texts = append(texts, strings.Join(w.Cells, ", ")+": "+w.Message)
			}
		}
	}
	return append(texts, c.Wrong...)
}

// TestClaims compares the page with the published figures and what was recorded. With -update it
// rewrites the page. Each published row has a row of a table, so that a reader of the document
// finds it in what reproduce prints.
func TestClaims(t *testing.T) {
	const document = "claims.md"
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	block := regexp.MustCompile(`(?s)<!-- claims -->\n.*<!-- end of claims -->`).FindString(
		string(text))
	require.NotEmpty(t, block)
	for _, name := range reproduce.Names(results.Files) {
		d, err := reproduce.Load(results.Files, name)
		require.NoError(t, err)
		shown := map[string]bool{}
		for _, table := range d.Tables {
			for _, row := range table.Rows {
				for _, theirs := range row.Theirs {
					shown[theirs] = true
				}
			}
		}
		for _, row := range d.Published.Rows {
			require.True(t, shown[row.Name], "no table of %s has the published row %q", name,
				row.Name)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(document,
			[]byte(strings.Replace(string(text), block, claims(t), 1)), 0o644))
		return
	}
	require.Equal(t, claims(t), block, "go test ./docs -run %s -update", t.Name())
}
