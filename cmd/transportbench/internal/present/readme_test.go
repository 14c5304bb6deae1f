package present

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/set"

	"github.com/stretchr/testify/require"
)

// published matches a block of a document that shows committed results. Its
// first marker names their directory, or two that are compared.
var published = regexp.MustCompile(`(?s)<!-- results: (results/\S+)(?: and (results/\S+))? -->\n.*?<!-- end of results -->`)

// TestPublishedResults compares the documents with the committed results that
// they show. With -update it rewrites them.
func TestPublishedResults(t *testing.T) {
	compareBlocks(t, published, func(root string, block [][]byte) []byte {
		dir, other := string(block[1]), string(block[2])
		if other == "" {
			return render(dir, readPublished(t, root, dir))
		}
		return renderYardsticks(dir, readPublished(t, root, dir), other, readPublished(t, root, other))
	})
}

// calibrated matches a block of a document that shows a committed calibration.
var calibrated = regexp.MustCompile(`(?s)<!-- calibration: (results/\S+) -->\n.*?<!-- end of calibration -->`)

// TestPublishedCalibration compares the documents with the committed calibrations that they show, and
// each calibration's conclusions with its own samples. With -update it rewrites both.
func TestPublishedCalibration(t *testing.T) {
	trust := map[string][]byte{} // each is concluded from once
	compareBlocks(t, calibrated, func(root string, block [][]byte) []byte {
		path := filepath.Join(root, string(block[1]))
		if trust[path] != nil {
			return trust[path]
		}
		d, err := calibration.Read(path)
		require.NoError(t, err)
		again := *d
		require.NoError(t, calibration.Conclude(&again))
		if *update {
			d = &again
			require.NoError(t, calibration.Write(path, d))
		}
		require.Equal(t, d, &again, "conclusions that do not follow from the samples")
		var shown bytes.Buffer
		Trust(&shown, d)
		trust[path] = shown.Bytes()
		return trust[path]
	})
}

// compareBlocks compares the blocks of all documents that match pattern with what they should show between
// their markers. With -update it rewrites them.
func compareBlocks(t *testing.T, pattern *regexp.Regexp, shown func(root string, block [][]byte) []byte) {
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
			if *update {
				text = bytes.Replace(text, block[0], []byte(want), 1)
				require.NoError(t, os.WriteFile(document, text, 0o644))
				continue
			}
			require.Equal(t, want, string(block[0]), "%s: go test ./cmd/transportbench/internal/present -run %s -update", document, t.Name())
		}
	}
	require.NotZero(t, blocks, "no document has such a block")
}

func documents(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/decisions/*.md", "results/README.md"} {
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
		require.Equal(t, set.Measured, c.Status, "%s: %s", dir, c.Reason)
		require.False(t, c.Incomplete)
		require.Equal(t, machineName(s.Machine(&s.Cells[0])), machineName(s.Machine(c)), "%s has results of several machines", dir)
		results, err := s.Results(c)
		require.NoError(t, err)
		for _, r := range results {
			require.False(t, r.Failed(), "%s of %s failed", r.ID, dir)
			require.Equal(t, r.Tool.Version, versionOf(dir), dir)
		}
	}
	return s
}

// versionOf returns the version in results/vVERSION/MACHINE, and below.
func versionOf(dir string) string { return strings.TrimPrefix(strings.Split(dir, "/")[1], "v") }

// render writes what `transportbench bench` prints for these results, without the
// warnings.
func render(dir string, s *set.Set) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "```text")
	Heading(&b, versionOf(dir), s.Machine(&s.Cells[0]))
	Comparison(&b, s)
	fmt.Fprintln(&b, "```")
	return b.Bytes()
}
