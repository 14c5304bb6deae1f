package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/set"
	"transportbench/results"
)

// recorded has what reproduce wrote, a directory for each document that was recorded.
const recorded = "../results/reproduced"

// claims returns the tables of all documents in Markdown.
func claims(t *testing.T) string {
	var out strings.Builder
	fmt.Fprintln(&out, "<!-- claims -->")
	for _, name := range reproduce.Names(results.Files) {
		d, err := reproduce.Load(results.Files, name)
		require.NoError(t, err)
		all := set.New()
		if dir := filepath.Join(recorded, name); exists(dir) {
			all, err = consistency.ReadSet(dir)
			require.NoError(t, err)
		}
		c, err := d.Compare(all)
		require.NoError(t, err)
		fmt.Fprintf(&out, "\n## %s\n\n`transportbench reproduce %s` measures it: %s.\n", name, name,
			c.Source)
		for i := range c.Tables {
			claimsOf(&out, d, i, &c.Tables[i])
		}
		for _, text := range c.Wrong {
			fmt.Fprintf(&out, "\nPublished: %s\n", text)
		}
		for _, text := range c.Absent {
			fmt.Fprintf(&out, "\nNot here: %s\n", text)
		}
	}
	fmt.Fprint(&out, "<!-- end of claims -->")
	return out.String()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// claimsOf writes a table of a document.
func claimsOf(out *strings.Builder, d *reproduce.Document, index int, t *reproduce.ComparedTable) {
	fmt.Fprintf(out, "\n### %s: %s\n\n"+
		"| system | mechanism | published | command | ours | verdict |\n"+
		"|---|---|---|---|---|---|\n", d.Name, t.Title)
	for i := range t.Lines {
		l, r := &t.Lines[i], &d.Tables[index].Rows[i]
		mechanism, command := r.Over+" over "+r.Under, ""
		if !l.Ratio {
			mechanism, command = "-", "-"
			if len(r.Ours) > 0 {
				mechanism, command = "`"+r.Ours[0]+"`", commandOf(d, r)
			}
		}
		measured := figuresOf(t, &l.Ours)
		if l.Provider != "" {
			measured = l.Provider + ": " + measured
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s |\n", l.Name, mechanism,
			figuresOf(t, &l.Theirs), command, measured, verdictOf(t, l))
	}
	for i := range t.Wrong {
		fmt.Fprintf(out, "\n%d: %s\n", i+1, t.Wrong[i].Message)
	}
	for _, text := range t.Notes {
		fmt.Fprintf(out, "\n%s\n", text)
	}
}

// verdictOf returns what is missing or wrong in a row.
func verdictOf(t *reproduce.ComparedTable, l *reproduce.Line) string {
	var parts []string
	switch {
	case l.Missing == "not measured":
		parts = append(parts, "not recorded yet")
	case l.Missing != "":
		parts = append(parts, "not here: "+l.Missing)
	}
	if l.Verdict != "" {
		parts = append(parts, l.Verdict)
	}
	parts = append(parts, l.Doubts...)
	for i := range t.Wrong {
		if slices.Contains(t.Wrong[i].Cells, l.Name) {
			parts = append(parts, fmt.Sprintf("see %d below", i+1))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, "; ")
}

// commandOf returns the command that measures a row alone.
func commandOf(d *reproduce.Document, r *reproduce.Row) string {
	micro := regexp.MustCompile(`micro=([a-z-]+)`).FindStringSubmatch(r.Ours[0])
	for _, m := range d.Micro {
		for _, name := range m.Names {
			if micro != nil && name == micro[1] {
				return fmt.Sprintf("`micro %s %s`", m.Transport, name)
			}
		}
	}
	return fmt.Sprintf("`reproduce %s`", d.Name)
}

func figuresOf(t *reproduce.ComparedTable, s *reproduce.Side) string {
	var list []string
	for i, f := range s.Figures {
		if f != nil {
			list = append(list, t.Columns[i]+" "+f.String())
		}
	}
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ", ")
}

// TestClaims compares the page with the published figures and what was recorded. With -update it
// rewrites the page. Each published row has a row of a table, so that a reader of the document
// finds it.
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
