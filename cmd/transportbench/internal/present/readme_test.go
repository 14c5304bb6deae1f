package present

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/result"
)

// published matches a block of a document that shows committed results. Its
// first marker names their directory.
var published = regexp.MustCompile(`(?s)<!-- results: (results/\S+) -->\n.*?<!-- end of results -->`)

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
			dir := string(block[1])
			want := fmt.Sprintf("<!-- results: %s -->\n%s<!-- end of results -->", dir, render(readPublished(t, root, dir)))
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

func documents(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		all = append(all, found...)
	}
	return all
}

// readPublished reads the results of one machine, oldest first, and checks that
// they can be shown and agree with the directory's names.
func readPublished(t *testing.T, root, dir string) []*result.Result {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.json"))
	require.NoError(t, err)
	if _, index := os.Stat(filepath.Join(root, dir, "index.json")); index == nil { // a sweep's
		paths, err = filepath.Glob(filepath.Join(root, dir, "cells", "*.json"))
		require.NoError(t, err)
	}
	require.NotEmpty(t, paths, "%s has no results", dir)
	var results []*result.Result
	for _, path := range paths {
		r, err := result.Read(path)
		require.NoError(t, err)
		require.False(t, r.Failed() || r.Incomplete, "%s failed or is incomplete", path)
		require.Equal(t, "v"+r.Tool.Version, filepath.Base(filepath.Dir(dir)), path)
		results = append(results, r)
	}
	for _, r := range results {
		require.Equal(t, machineName(results[0].Environment.Identity), machineName(r.Environment.Identity), "%s has results of several machines", dir)
	}
	slices.SortFunc(results, func(a, b *result.Result) int { return a.StartedAt.Compare(b.StartedAt) })
	return results
}

// render writes what `transportbench bench` prints for these results, without the
// warnings.
func render(results []*result.Result) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "```text")
	Heading(&b, results[0].Tool.Version, results[0].Environment.Identity)
	Comparison(&b, results, nil)
	fmt.Fprintln(&b)
	Floors(&b, results)
	fmt.Fprintln(&b, "```")
	return b.Bytes()
}
