package tables

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// calibrated matches a block of a document that shows a committed calibration, its summary or its
// power.
var calibrated = regexp.MustCompile(
	`(?s)<!-- (calibration|power): (results/\S+) -->\n.*?<!-- end of (?:calibration|power) -->`)

// compareBlocks compares the blocks of all documents that match pattern with what they should show
// between their markers. With -update it rewrites them.
func compareBlocks(t *testing.T, pattern *regexp.Regexp,
	shown func(root string, block [][]byte) []byte) {
	t.Helper()
	const root = "../../../.."
	blocks := 0
	for _, document := range documents(t, root) {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, block := range pattern.FindAllSubmatch(text, -1) {
			blocks++
			first, _, _ := bytes.Cut(block[0], []byte("\n"))
			last := block[0][bytes.LastIndexByte(block[0], '\n')+1:]
			want := fmt.Sprintf("%s\n%s%s", first, shown(root, block), last)
			if *doctest.Update {
				text = bytes.Replace(text, block[0], []byte(want), 1)
				require.NoError(t, os.WriteFile(document, text, 0o644))
				continue
			}
			require.Equal(t, want, string(block[0]),
				"%s: go test ./core/lab/doc/tables -run %s -update", document, t.Name())
		}
	}
	require.NotZero(t, blocks, "no document has such a block")
}

func documents(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/decisions/*.md",
		"results/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		all = append(all, found...)
	}
	return all
}

// readPublished reads the results of one machine and checks that they can be
// shown and agree with the directory's names.
func readPublished(t *testing.T, root, dir string) *set.Set {
	t.Helper()
	s, err := set.Load(filepath.Join(root, dir))
	require.NoError(t, err)
	require.NotEmpty(t, s.Cells, "%s has no results", dir)
	for i := range s.Cells {
		c := &s.Cells[i]
		if dir != doctest.Standard && c.Status == set.Unavailable {
			continue // ucxam and ofi, which cannot park
		}
		require.Equal(t, set.Measured, c.Status, "%s: %s", dir, c.Reason)
		require.False(t, c.Incomplete)
		require.Equal(t, format.MachineOf(s.Machine(&s.Cells[0]).Identity),
			format.MachineOf(s.Machine(c).Identity),
			"%s has results of several machines", dir)
		require.Equal(t, c.Tool.Version, versionOf(dir), dir)
		results, err := s.Results(c)
		require.NoError(t, err)
		for _, r := range results {
			// A rate that a transport cannot keep is an answer, too.
			require.False(t, r.Failed() && kept(c), "%s of %s failed", r.ID, dir)
		}
	}
	return s
}

// versionOf returns the version in results/vVERSION/MACHINE, and below.
func versionOf(dir string) string { return strings.TrimPrefix(strings.Split(dir, "/")[1], "v") }
