package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

const resultsPage = "results.md"

// statistic matches the end of a metric's name, and what its help says of it.
var statistic = regexp.MustCompile(`_(p\d+|max)$|, (median|\d[\d.]*th percentile|largest sample)$`)

// metricsTable returns the table of metrics in Markdown, in the order of their definitions. Metrics
// that are statistics of one quantity share a row.
func metricsTable() string {
	var out strings.Builder
	fmt.Fprint(&out, "<!-- metrics -->\n| metric | unit | better | meaning |\n|---|---|---|---|\n")
	for defs := result.Definitions; len(defs) > 0; {
		first := defs[0]
		help := statistic.ReplaceAllString(first.Help, "")
		n := slices.IndexFunc(defs, func(d result.Definition) bool {
			return statistic.ReplaceAllString(d.Name, "") != statistic.ReplaceAllString(
				first.Name, "") || !strings.HasPrefix(help, statistic.ReplaceAllString(d.Help, ""))
		})
		if n < 0 {
			n = len(defs)
		}
		if n == 1 {
			help = first.Help
		}
		var names []string
		for _, d := range defs[:n] {
			names = append(names, "`"+d.Name+"`")
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", strings.Join(names, ", "), first.Unit,
			first.Better, help)
		defs = defs[n:]
	}
	return out.String() + "<!-- end of metrics -->"
}

// TestDocumentedMetrics compares the table of metrics with their definitions. With -update it
// rewrites the table.
func TestDocumentedMetrics(t *testing.T) {
	text, err := os.ReadFile(resultsPage)
	require.NoError(t, err)
	require.Contains(t, string(text), "`"+result.SchemaVersion+"`")
	block := regexp.MustCompile(`(?s)<!-- metrics -->\n.*<!-- end of metrics -->`).FindString(
		string(text))
	require.NotEmpty(t, block)
	for _, d := range result.Definitions {
		require.Contains(t, metricsTable(), "`"+d.Name+"`")
	}
	if *update {
		require.NoError(t, os.WriteFile(resultsPage,
			[]byte(strings.Replace(string(text), block, metricsTable(), 1)), 0o644))
		return
	}
	require.Equal(t, metricsTable(), block, "go test ./docs -run %s -update", t.Name())
}

// evident are fields of the schemas whose name and type say it all.
var evident = strings.Fields(`
	after amount arch argv available_memory_bytes back_pressure before better bounce_after_ns
	bounce_before_ns bounce_ns by_operation bytes caller capabilities cause cells checks clients
	clock_source conditions count counters daemon daemons delivered dropped_packets due each
	elapsed_ns empty_loops empty_polls environment error failed false_verdicts firmware flushes
	for_ns format gets go help high identity in_flight incomplete_reason involuntary_switches
	kernel keys kind lasted_ms latency libraries library_ns limit limits loaded lookups loops
	low machine median medium_ns ms name node notes numa_nodes number observer of operation
	overflowed packages parts peak_rss_bytes peer per_second pid placement plugin polls ports
	power process provider puts rank ranks rate_ns rdma read_share reads received_bytes
	received_packets repeats requests resolution retransmitted_packets reuse_p99 revision rows
	runtime_digest sample_every samples schema_version seconds sent_bytes sent_packets setup
	sha256 started_at thread times tool transport trials unit value version volatile
	voluntary_switches what whole windows writes`)

// TestDescribedFields checks that the schemas, which are the reference, describe each of their
// fields.
func TestDescribedFields(t *testing.T) {
	type described struct {
		Description string               `json:"description"`
		Properties  map[string]described `json:"properties"`
	}
	for _, file := range []string{"store/result", "store/set", "store/published",
		"judge/calibration"} {
		var schema struct {
			Defs map[string]described `json:"$defs"`
		}
		text, err := os.ReadFile("../core/lab/" + file + "/schema.json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &schema))
		require.NotEmpty(t, schema.Defs)
		for name, def := range schema.Defs {
			require.NotEmpty(t, def.Description, "%s: %s has no comment", file, name)
			for field, property := range def.Properties {
				require.True(t, property.Description != "" || slices.Contains(evident, field),
					"%s: no comment of %s describes its field %s", file, name, field)
			}
		}
	}
}
