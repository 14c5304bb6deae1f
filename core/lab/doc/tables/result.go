package tables

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// Result returns one result: what ran, its main metrics and its failed checks, and in folds the
// other metrics and the work.
func Result(r *result.Result) *doc.Doc {
	out := new(doc.Doc)
	out.Line("%s\n%s", Title(r), Load(r.Config))
	for _, path := range result.Path(r) {
		out.Paragraph("path: " + path)
	}
	if hosts := hostsOf(r); hosts != "" {
		out.Paragraph(hosts)
	}
	in, windows := shownOf(r)
	if windows != "" {
		out.Line("windows: " + windows)
	}
	out.Gap()
	starved, is := oversubscribed(r)
	if is {
		writeOversubscribed(out, starved.Message)
	}
	header := intervalHeader(r.Config.WithinLaunch())
	t, others := figures(header), figures(header)
	for _, d := range result.Definitions {
		m, ok := in.Summary[d.Name]
		ok = ok && !result.OfSetup(d.Name)
		if p, pooled := r.Pooled[d.Name]; pooled {
			m.Median, m.Low, m.High = p.Value, p.Low, p.High
			d.Help += ", all windows together"
		} else if len(r.Pooled) > 0 && strings.HasPrefix(d.Name, "response_") {
			continue // too few samples
		}
		switch {
		case ok && isDetail(d.Name):
			others.figure(d, m)
		case ok:
			t.figure(d, m)
		}
	}
	out.Add(t.Table)
	out.Gap()
	stream(out, in)
	network(out, r)
	out.Append(Classes(result.FiguresOf(r.Config.Classes, func(name string) (result.Metric, bool) {
		m, known := in.Summary[name]
		return m, known
	})))
	if list, err := result.FlowsOf(in.Repeats); err == nil { // else a check reports it
		out.Append(Flows(list, maxFlows))
	}
	mesh(out, in)
	out.Append(checks(r, starved.Name))
	if n := len(others.Rows); n > 0 {
		out.Fold(format.Count(n, "more metric"), &doc.Doc{Blocks: []doc.Block{others.Table}})
	}
	return out
}

// shownOf returns a result with the repeats and the medians of the windows that tables show, and
// which these are if there are others.
func shownOf(r *result.Result) (in *result.Result, windows string) {
	s := set.New()
	if s.Add(r) != nil {
		return r, ""
	}
	shown, c := state.ShownOf(s), &s.Cells[0]
	repeats := shown.Results(c, []*result.Result{r})[0].Repeats
	if len(repeats) == len(r.Repeats) {
		return r, ""
	}
	narrowed := *r
	narrowed.Repeats, narrowed.Summary = repeats, maps.Clone(r.Summary)
	maps.Copy(narrowed.Summary, result.SummarizeRepeats(repeats))
	return &narrowed, fmt.Sprintf("%s of %d", shown.Windows(c), len(r.Repeats))
}

// details are the metrics that explain the others. Percentiles at 90% are details, too.
var details = []string{result.LatencyMean, result.LatencyMax, result.ResponseMax,
	result.ScheduleLagP99, result.EmptyLoops, result.Library, result.Bare, result.BareRate,
	result.WitnessRoundTrip, result.WitnessRate, result.BusyPerOp, result.ProcessCPUPerOp,
	result.KernelPerOp, result.HarnessOverhead, result.CoreDistance, result.Steal, result.Stalled,
	result.GapLimit, result.VerifyCost, result.ClientFairness, result.CopiesPerOp,
	result.CopiedBytesPerOp, result.ChecksummedBytesPerOp, result.SyscallsPerOp,
	result.KernelBytesPerOp, result.DoorbellsPerOp, result.HarnessBytesPerOp, result.Threads}

func isDetail(metric string) bool {
	return slices.Contains(details, metric) || strings.HasSuffix(metric, "_p90")
}

// figureTable has a row for each metric.
type figureTable struct{ *doc.Table }

func figures(interval string, more ...string) figureTable {
	return figureTable{doc.NewTable(append(append([]string{"metric", ">median", interval}, more...),
		"")...).Wrap(40, "")}
}

func (t figureTable) figure(d result.Definition, m result.Metric, more ...any) {
	t.Row(append(append([]any{d.Name, doc.Median(m), format.Interval(m)}, more...), d.Help)...)
}

// Figures returns the metrics of a cell, with the number of their repeats. title names the windows.
func Figures(title string, c *set.Cell, names []string) *doc.Doc {
	out := new(doc.Doc)
	t := figures(">95% interval", ">repeats")
	for _, name := range names {
		switch m, known := c.Metric(name); {
		case known && c.Void(name):
			t.Row(name, Figure(c, name), "-", m.N, result.Define(name).Help)
		case known:
			t.figure(result.Define(name), m, m.N)
		}
	}
	out.Line(title)
	out.Add(t.Table)
	return out
}

// Oversubscribed says that polling threads shared processors if a cell of the set says so.
func Oversubscribed(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	for _, d := range machineFacts(s.Cells) {
		if d.Name == "oversubscribed" {
			writeOversubscribed(out, d.Message)
			return out
		}
	}
	return out
}

func writeOversubscribed(out *doc.Doc, message string) {
	out.Add(doc.Text{Kind: doc.Paragraph, Severity: result.Error, Text: "OVERSUBSCRIBED: " +
		message +
		". Throughput and latencies measure the scheduler, not the transport. " +
		"Use a core for each polling thread, or fewer threads."})
	out.Gap()
}

// oversubscribed returns the failed check of a result whose polling threads shared processors: with
// each other, or for most of the time with other programs.
func oversubscribed(r *result.Result) (c result.Finding, is bool) {
	for _, c := range r.Checks {
		if !c.OK && (c.Name == "oversubscribed" || c.Name == "preempted" &&
			c.Value > result.StarvedShare) {
			return c, true
		}
	}
	return c, false
}

// intervalHeader returns the header of a column of intervals. Repeats of one launch do not show
// what differs between launches.
func intervalHeader(withinLaunch bool) string {
	if withinLaunch {
		return ">95% interval within one process start"
	}
	return ">95% interval"
}

// Title names the transport, its provider and the profile, and the topology and
// the rate if they are not the default.
func Title(r *result.Result) string {
	c := r.Config
	title := fmt.Sprintf("%s %s (%s), profile %s", r.Plugin.Name, r.Plugin.Version,
		format.Provider(r.Plugin.Provider, r.Plugin.Chosen), c.Profile)
	if c.Mesh() {
		title += ", " + c.Topology
		if c.RemoteShare != config.ByHash {
			title += fmt.Sprintf(" (%g%% remote)", 100*float64(c.RemoteShare))
		}
	}
	if c.Network != "" {
		title += ", network " + c.Network.String()
	}
	if c.Traffic != "" {
		title += ", traffic " + c.Traffic.String()
	}
	switch c.Load() {
	case config.LoadCapacity:
		title += ", open loop at its capacity"
	case config.LoadOpen:
		title += fmt.Sprintf(", open loop of %s (%s)", format.Rate(float64(c.Rate)), c.Arrival)
	}
	return title
}

// Load describes the load in one line.
func Load(c config.Config) string {
	parts := []string{
		format.Count(c.Ranks, "rank"), format.Count(c.ServingRanks()*c.Daemons, "daemon"),
		format.Count(c.CallingRanks()*c.Clients, "client"),
		calls(&c),
		operations(&c),
		fmt.Sprintf("%s (%s)", format.Count(c.TotalKeys(), "key"), c.Distribution),
		fmt.Sprintf("%d x %v", c.Repeats, c.Duration),
	}
	return strings.Join(parts, ", ")
}

// calls describes the calls of a client, or of those of each class.
func calls(c *config.Config) string {
	if c.Load() == config.LoadClasses {
		return "classes " + c.Classes.String()
	}
	return fmt.Sprintf("%d in flight, %s", c.InFlight, values(c.ValueSize))
}

func values(s config.Sizes) string {
	switch {
	case s.Fixed():
		return "values of " + size(s.Max())
	case s.Histogram() == nil:
		return "values of " + sizes(s)
	default:
		return fmt.Sprintf("values of %s (%s)", sizes(s), format.Count(len(s.Histogram()), "size"))
	}
}

func sizes(s config.Sizes) string {
	return size(s.Min()) + " to " + size(s.Max())
}

// size formats bytes as options have them: "32 B", "4KiB".
func size(n int) string {
	text := transport.FormatSize(int64(n))
	if _, err := strconv.Atoi(text); err == nil {
		text += " B"
	}
	return text
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
	case c.Service == config.ServiceEcho:
		return "echo"
	case c.Service == config.ServiceSink && len(c.Pattern) == 0:
		return "writes"
	case len(c.Mix) > 0:
		return strings.Join(parts, " + ")
	case len(c.Pattern) > 0:
		return "iterations of " + strings.Join(parts, " + ")
	default:
		return fmt.Sprintf("%g%% reads", c.ReadRatio*100)
	}
}

// checks returns why a result is incomplete and which checks failed, except for one that is shown
// already.
func checks(r *result.Result, except string) *doc.Doc {
	out := new(doc.Doc)
	if r.Incomplete {
		out.Line("incomplete: %s%s", r.IncompleteReason, failedRepeat(r))
	}
	failed := failedChecks(r)
	first := new(few)
	for _, c := range failed {
		if c.Name == except {
			continue
		}
		one := new(doc.Doc)
		one.Finding(doc.Line, c.Severity, c.Name+": "+c.Message)
		first.add(c.Severity, one)
	}
	first.write(out, "failed check")
	if len(failed) == 0 {
		out.Line("%s passed, none failed", format.Count(len(r.Checks), "check"))
	}
	return out
}

// few are findings, the worst first, of which a summary has the first ones.
type few struct {
	shown, more doc.Doc
	n, left     int
}

// maxFindings is how many findings a summary has: as many as a user acts on.
const maxFindings = 3

func (f *few) add(severity result.Severity, finding *doc.Doc) {
	if severity == result.Info || f.n == maxFindings {
		f.more.Append(finding)
		f.left++
		return
	}
	f.shown.Append(finding)
	f.n++
}

// write writes the first findings, and the others as a fold. what is one of them.
func (f *few) write(out *doc.Doc, what string) {
	out.Append(&f.shown)
	if f.left > 0 {
		if f.n > 0 {
			what = "more " + what
		}
		out.Fold(format.Count(f.left, what), &f.more)
	}
}

func failedRepeat(r *result.Result) string {
	if r.FailedRepeat == nil {
		return ""
	}
	text := fmt.Sprintf("; the result has the recorded part of repeat %d", r.FailedRepeat.Index+1)
	if rate := r.FailedRepeat.Samples[result.Throughput]; rate > 0 {
		text += ", at " + format.Rate(rate)
	}
	return text
}

// failedChecks returns the failed checks, errors first. It omits the check of
// completeness of an incomplete result, which is reported separately.
func failedChecks(r *result.Result) []result.Finding {
	return slices.DeleteFunc(result.Failed(r.Checks),
		func(c result.Finding) bool { return r.Incomplete && c.Name == "complete" })
}
