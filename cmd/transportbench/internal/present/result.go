package present

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
)

// Result writes one result: what ran, its metrics, and what is wrong with it.
func Result(w io.Writer, r *result.Result) {
	fmt.Fprintf(w, "%s\n%s\n\n", Title(r), Load(r.Config))
	t := newTable(w, "metric", "median", "95% interval", "")
	rightAlign(t, 2, 3)
	for _, d := range result.Definitions {
		if m, ok := r.Summary[d.Name]; ok {
			t.AppendRow(table.Row{d.Name, format.Value(m), format.Interval(m), d.Help})
		}
	}
	t.Render()
	fmt.Fprintln(w)
	mesh(w, r)
	Trust(w, r)
}

// Title names the transport, what carries its bytes, and the load: its profile,
// and what is not the usual about who calls whom, and when.
func Title(r *result.Result) string {
	c := r.Config
	title := fmt.Sprintf("%s %s (%s), profile %s", r.Plugin.Name, r.Plugin.Version, r.Plugin.Provider, c.Profile)
	if c.Mesh() {
		title += ", " + c.Topology
		if c.RemoteShare != config.ByHash {
			title += fmt.Sprintf(" (%g%% remote)", 100*float64(c.RemoteShare))
		}
	}
	if c.Rate > 0 {
		title += fmt.Sprintf(", open loop of %s (%s)", format.Rate(float64(c.Rate)), c.Arrival)
	}
	return title
}

// Load says in one line what was asked of a transport.
func Load(c config.Config) string {
	parts := []string{
		format.Count(c.Ranks, "rank"), format.Count(c.ServingRanks()*c.Daemons, "daemon"), format.Count(c.CallingRanks()*c.Clients, "client"),
		fmt.Sprintf("%d in flight", c.InFlight),
		values(c.ValueSize),
		operations(&c),
		fmt.Sprintf("%s (%s)", format.Count(c.TotalKeys(), "key"), c.Distribution),
		fmt.Sprintf("%d x %v", c.Repeats, c.Duration),
	}
	return strings.Join(parts, ", ")
}

func values(s config.Sizes) string {
	switch {
	case s.Fixed():
		return fmt.Sprintf("values of %d B", s.Max())
	case s.Histogram() == nil:
		return fmt.Sprintf("values of %d to %d B", s.Min(), s.Max())
	default:
		return fmt.Sprintf("values of %d to %d B (%s)", s.Min(), s.Max(), format.Count(len(s.Histogram()), "size"))
	}
}

func operations(c *config.Config) string {
	var parts []string
	for _, s := range c.Mix {
		parts = append(parts, fmt.Sprintf("%g%% %s", s.Share*100, s.Op))
	}
	for _, p := range c.Pattern {
		parts = append(parts, fmt.Sprintf("%d %s", p.Count, p.Op))
	}
	switch {
	case len(c.Mix) > 0:
		return strings.Join(parts, " + ")
	case len(c.Pattern) > 0:
		return "iterations of " + strings.Join(parts, " + ")
	default:
		return fmt.Sprintf("%g%% reads", c.ReadRatio*100)
	}
}

// Heading says what measured, and on what machine.
func Heading(w io.Writer, version string, id machine.Identity) {
	fmt.Fprintf(w, "transportbench %s on %s\n\n", version, machineName(id))
}

func machineName(id machine.Identity) string {
	return format.Machine(id.CPU, id.Cores, id.Virtualisation)
}

// Trust says what speaks against using a result's numbers.
func Trust(w io.Writer, r *result.Result) {
	if r.Incomplete {
		fmt.Fprintf(w, "incomplete: %s%s\n", r.IncompleteReason, failedRepeat(r))
	}
	failed := failedChecks(r)
	for _, c := range failed {
		fmt.Fprintf(w, "%s: %s: %s\n", c.Severity, c.Name, c.Message)
	}
	if len(failed) == 0 {
		fmt.Fprintf(w, "%s passed, none failed\n", format.Count(len(r.Checks), "check"))
	}
}

// failedRepeat says that a repeat which failed is kept, and how it went.
func failedRepeat(r *result.Result) string {
	if r.FailedRepeat == nil {
		return ""
	}
	text := fmt.Sprintf("; the result has what was recorded of repeat %d", r.FailedRepeat.Index+1)
	if rate := r.FailedRepeat.Samples[result.Throughput]; rate > 0 {
		text += ", at " + format.Rate(rate)
	}
	return text
}

// failedChecks leaves out the check of completeness, which is told by itself.
func failedChecks(r *result.Result) []result.Check {
	var failed []result.Check
	for _, severity := range []result.Severity{result.Error, result.Warning, result.Info} {
		for _, c := range r.Checks {
			if !c.OK && c.Severity == severity && !(r.Incomplete && c.Name == "complete") {
				failed = append(failed, c)
			}
		}
	}
	return failed
}

// Missing is a transport that has no result, and why.
type Missing struct {
	Transport, Reason string
	// Profile is the load that the transport cannot take; it is empty where the
	// reason is another.
	Profile string
}

// String says it in one line.
func (m Missing) String() string {
	if m.Profile != "" {
		return fmt.Sprintf("%s cannot run %s: %s", m.Transport, m.Profile, m.Reason)
	}
	return fmt.Sprintf("%s did not run: %s", m.Transport, m.Reason)
}

// Comparison writes one row for each result, best throughput first within a
// profile, then the transports that are missing.
func Comparison(w io.Writer, results []*result.Result, missing []Missing) {
	if len(results) > 0 {
		t := newTable(w, "profile", "transport", "provider", "throughput", "95% interval",
			"p50", "p99", "p99.9", "floor", "p50/floor", "op/floor", "CPU/op", "checks")
		rightAlign(t, 4, 5, 6, 7, 8, 9, 10, 11, 12)
		for _, r := range ranked(results) {
			t.AppendRow(table.Row{
				r.Config.Profile, r.Plugin.Name, r.Plugin.Provider,
				cell(r, result.Throughput, format.Value), cell(r, result.Throughput, format.Interval),
				cell(r, result.LatencyP50, format.Value), cell(r, result.LatencyP99, format.Value), cell(r, result.LatencyP999, format.Value),
				cell(r, result.Floor, format.Value), cell(r, result.FloorRatio, format.Value), cell(r, result.OpTimeRatio, format.Value), cell(r, result.CPUPerOp, format.Value),
				verdict(r),
			})
		}
		t.Render()
	}
	for _, m := range missing {
		fmt.Fprintln(w, m)
	}
}

// ranked keeps profiles in the order in which they first appear.
func ranked(results []*result.Result) []*result.Result {
	var profiles []string
	byProfile := map[string][]*result.Result{}
	for _, r := range results {
		profile := r.Config.Profile
		if byProfile[profile] == nil {
			profiles = append(profiles, profile)
		}
		byProfile[profile] = append(byProfile[profile], r)
	}
	var ordered []*result.Result
	for _, profile := range profiles {
		group := byProfile[profile]
		sortByThroughput(group)
		ordered = append(ordered, group...)
	}
	return ordered
}

func cell(r *result.Result, metric string, show func(result.Metric) string) string {
	m, ok := r.Summary[metric]
	if !ok {
		return "-"
	}
	return show(m)
}

// verdict counts the failed checks by severity.
func verdict(r *result.Result) string {
	var severities []result.Severity
	for _, c := range failedChecks(r) {
		severities = append(severities, c.Severity)
	}
	return trust(severities, r.Incomplete)
}

// trust says how many checks failed, by their severities.
func trust(failed []result.Severity, incomplete bool) string {
	counts := map[result.Severity]int{}
	for _, severity := range failed {
		counts[severity]++
	}
	var parts []string
	if n := counts[result.Error]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d FAILED", n))
	}
	if n := counts[result.Warning]; n > 0 {
		parts = append(parts, format.Count(n, "warning"))
	}
	if incomplete {
		parts = append(parts, "incomplete")
	}
	if len(parts) == 0 {
		return "ok"
	}
	return strings.Join(parts, ", ")
}

// Floors writes a line on what the floor of each transport among the results
// is. How long it took is each result's own, and in the comparison.
func Floors(w io.Writer, results []*result.Result) {
	seen := map[string]bool{}
	for _, r := range results {
		key := r.Plugin.Name + " " + r.Plugin.Provider
		if seen[key] {
			continue
		}
		seen[key] = true
		fmt.Fprintf(w, "floor of %s (%s): %s\n", r.Plugin.Name, r.Plugin.Provider, floorLine(r))
	}
}

func floorLine(r *result.Result) string {
	for _, repeat := range r.Repeats {
		if f := repeat.FloorBefore; f != nil {
			return f.Name + ", a round trip, probed before and after each window"
		}
		if repeat.FloorNote != "" {
			return "not probed: " + repeat.FloorNote
		}
	}
	return "not probed"
}

// Left rounds the time that is left to what a reader can use.
func Left(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func sortByThroughput(results []*result.Result) {
	slices.SortStableFunc(results, func(a, b *result.Result) int {
		return cmp.Compare(b.Summary[result.Throughput].Median, a.Summary[result.Throughput].Median)
	})
}

// Doubtful says whether anything speaks against a result's numbers.
func Doubtful(r *result.Result) bool { return r.Incomplete || len(failedChecks(r)) > 0 }

// Doubts writes the failed checks of several results, each with whose it is.
func Doubts(w io.Writer, results []*result.Result) {
	for _, r := range results {
		for _, c := range failedChecks(r) {
			fmt.Fprintf(w, "%s: %s %s: %s: %s\n", c.Severity, r.Plugin.Name, r.Config.Profile, c.Name, c.Message)
		}
	}
}
