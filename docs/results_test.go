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

	"transportbench/core/base/config"
	"transportbench/core/lab/store/result"
)

const resultsPage = "results.md"

// statistic matches the end of a metric's name, and what its help says of it.
var statistic = regexp.MustCompile(`_(p\d+|max)$|, (median|\d[\d.]*th percentile|largest sample)$`)

// family returns what a metric has in common with those that share its row of the table: its name
// without statistic, kind of operation and kind of pairs, and its unit and meaning in that row.
func family(d result.Definition) (name, unit, meaning string) {
	name, unit = statistic.ReplaceAllString(d.Name, ""), d.Unit
	if d.Better != result.None {
		unit += ", " + string(d.Better)
	}
	switch {
	case strings.HasSuffix(d.Name, result.WithinMachine),
		strings.HasSuffix(d.Name, result.BetweenMachines):
		return "pairs", "", "several hosts: the same for calls within a machine or between machines"
	case slices.Contains(config.OpNames(), name):
		return "operations", unit, "service time of operations of that kind"
	}
	return name, unit, statistic.ReplaceAllString(d.Help, "")
}

// metricsTable returns the table of metrics in Markdown, in the order of their definitions. Metrics
// of one family share a row.
func metricsTable() string {
	var families []string
	rows := map[string][]result.Definition{}
	for _, d := range result.Definitions {
		name, _, _ := family(d)
		if rows[name] == nil {
			families = append(families, name)
		}
		rows[name] = append(rows[name], d)
	}
	var out strings.Builder
	fmt.Fprint(&out, "<!-- metrics -->\n| metric | unit, better | meaning |\n|---|---|---|\n")
	for _, name := range families {
		row := rows[name]
		_, unit, meaning := family(row[0])
		if len(row) == 1 {
			meaning = row[0].Help
		}
		var names []string
		for _, d := range row {
			names = append(names, "`"+d.Name+"`")
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", strings.Join(names, ", "), unit, meaning)
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
