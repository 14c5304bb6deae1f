package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
)

// often returns times, or fewer in short mode, which only shows that the benchmark works.
func often(times, fewer int) int {
	if testing.Short() {
		return fewer
	}
	return times
}

// pairedTests runs ab the given number of times, with 10 repeats of each side, and returns the
// reports. Any significant change counts.
func pairedTests(b *testing.B, times int, a, other string) []compare.Report {
	b.Helper()
	repeats := strconv.Itoa(often(10, 2))
	var reports []compare.Report
	for range times {
		i := command(b, "ab", "--transport", "shm", "--profile", "pingpong", "--a", a, "--b", other,
			"--repeats", repeats, "--max-repeats", repeats,
			"--limit", "1h", "--floor", "0", "--duration", "100ms", "--warmup", "50ms",
			"--format", "json")
		i.cmd.Args = append(i.cmd.Args, "--out", i.out)
		_ = i.cmd.Run() // a verdict is an exit code
		var r compare.Report
		require.NoError(b, json.Unmarshal(i.stdout.Bytes(), &r), i.stderr.String())
		reports = append(reports, r)
	}
	return reports
}

// BenchmarkSameAgainstSame compares a configuration with itself 20 times. The
// share of comparisons in which anything is BETTER or WORSE must stay within
// alpha.
func BenchmarkSameAgainstSame(b *testing.B) {
	times := often(20, 1)
	for b.Loop() {
		wrong := 0
		for _, r := range pairedTests(b, times, "", "") {
			if r.Count(compare.Better)+r.Count(compare.Worse) > 0 {
				wrong++
			}
		}
		b.ReportMetric(float64(wrong)/float64(times), "false-share")
	}
}

// BenchmarkSlowDownOf5Percent burns a twentieth of the median latency before
// each call. It reports how often 10 repeats detect that, and the size that they
// measure.
func BenchmarkSlowDownOf5Percent(b *testing.B) {
	i := command(b, "run", "--json", "--transport", "shm", "--profile", "pingpong", "--duration",
		"500ms", "--repeats", "6")
	_ = i.cmd.Run()
	r, err := result.Parse(i.stdout.Bytes())
	require.NoError(b, err, i.stderr.String())
	burn := fmt.Sprintf("burn=%dns", int(math.Round(r.Summary[result.LatencyP50].Median/20)))
	times := often(10, 1)
	for b.Loop() {
		found, sum := 0, 0.0
		for _, report := range pairedTests(b, times, "", burn) {
			for _, c := range report.Changes {
				if c.Metric == result.LatencyP50 && c.Change != nil {
					sum += *c.Change
					if c.Verdict == compare.Worse {
						found++
					}
				}
			}
		}
		b.ReportMetric(float64(found)/float64(times), "found-share")
		b.ReportMetric(sum/float64(times)/0.05, "of-5-percent")
	}
	b.Log(strings.TrimPrefix(burn, "burn="))
}
