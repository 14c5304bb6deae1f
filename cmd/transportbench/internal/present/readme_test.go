package present

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"transportbench/core/lab/calibrate"
	"transportbench/core/lab/result/set"

	"github.com/stretchr/testify/require"
)

// published matches a block of a document that shows committed results. Its
// first marker names their directory, or two that are compared.
var published = regexp.MustCompile(`(?s)<!-- results: (results/\S+)(?: and (results/\S+))? -->\n.*?<!-- end of results -->`)

// TestPublishedResults compares the documents with the committed results that
// they show. With -update it rewrites them.
func TestPublishedResults(t *testing.T) {
	const root = "../../../.."
	blocks := 0
	for _, document := range documents(t, root) {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, block := range published.FindAllSubmatch(text, -1) {
			blocks++
			first, _, _ := bytes.Cut(block[0], []byte("\n"))
			dir, other := string(block[1]), string(block[2])
			shown := []byte(nil)
			if other == "" {
				shown = render(dir, readPublished(t, root, dir))
			} else {
				shown = renderYardsticks(dir, readPublished(t, root, dir), other, readPublished(t, root, other))
			}
			want := fmt.Sprintf("%s\n%s<!-- end of results -->", first, shown)
			if *update {
				text = bytes.Replace(text, block[0], []byte(want), 1)
				require.NoError(t, os.WriteFile(document, text, 0o644))
				continue
			}
			require.Equal(t, want, string(block[0]), "%s: go test ./cmd/transportbench/internal/present "+
				"-run TestPublishedResults -update", document)
		}
	}
	require.NotZero(t, blocks, "no document shows results")
}

// calibrated matches a block of a document that shows a committed calibration.
var calibrated = regexp.MustCompile(`(?s)<!-- calibration: (results/\S+) -->\n.*?<!-- end of calibration -->`)

// TestPublishedCalibration compares the documents with the committed calibrations that they show, and
// each calibration's conclusions with its own samples. With -update it rewrites both.
func TestPublishedCalibration(t *testing.T) {
	const root = "../../../.."
	blocks := 0
	for _, document := range documents(t, root) {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, block := range calibrated.FindAllSubmatch(text, -1) {
			blocks++
			first, _, _ := bytes.Cut(block[0], []byte("\n"))
			d, err := calibrate.Read(filepath.Join(root, string(block[1])))
			require.NoError(t, err)
			again := *d
			require.NoError(t, calibrate.Conclude(&again))
			if *update {
				d = &again
				require.NoError(t, calibrate.Write(filepath.Join(root, string(block[1])), d))
			}
			require.Equal(t, d, &again, "conclusions that do not follow from the samples")
			var shown bytes.Buffer
			Trust(&shown, d)
			want := fmt.Sprintf("%s\n%s<!-- end of calibration -->", first, shown.Bytes())
			if *update {
				text = bytes.Replace(text, block[0], []byte(want), 1)
				require.NoError(t, os.WriteFile(document, text, 0o644))
				continue
			}
			require.Equal(t, want, string(block[0]), "%s: go test ./cmd/transportbench/internal/present "+
				"-run TestPublishedCalibration -update", document)
		}
	}
	require.NotZero(t, blocks, "no document shows a calibration")
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
			require.Equal(t, "v"+r.Tool.Version, filepath.Base(filepath.Dir(dir)), dir)
		}
	}
	return s
}

func versionOf(dir string) string { return strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "v") }

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
