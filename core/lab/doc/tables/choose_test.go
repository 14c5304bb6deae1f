package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// answered matches a block of a document that answers a question from committed results.
var answered = regexp.MustCompile(
	`(?s)<!-- answer: (\S+) from (results/\S+) -->\n.*?<!-- end of answer -->`)

// TestPublishedAnswers compares the answers of the documents with the committed results that they
// are from. With -update it rewrites them.
func TestPublishedAnswers(t *testing.T) {
	sets := map[string]*answerSet{} // each is read once
	compareBlocks(t, answered, func(root string, block [][]byte) []byte {
		dir, question := string(block[2]), string(block[1])
		answer, known := answers[question]
		require.True(t, known, question)
		if sets[dir] == nil {
			sets[dir] = newAnswerSet(t, dir, readPublished(t, root, dir))
		}
		var text bytes.Buffer
		answer(&text, sets[dir])
		return text.Bytes()
	})
}

// The rows of an answer are the cells of one load, in the state of the machine in which all of them
// have most windows.
type answerSet struct {
	*set.Set
	dir    string
	loads  loads
	states compare.States
	floors map[string]string // the name of each transport's medium floor
}

func newAnswerSet(t *testing.T, dir string, s *set.Set) *answerSet {
	a := &answerSet{s, dir, loadsOf(s.Cells), compare.FindStates(s), map[string]string{}}
	for i := range s.Cells {
		results, err := s.Results(&s.Cells[i])
		require.NoError(t, err)
		if floor := results[0].Repeats[0].Before.Medium; floor != nil {
			// the rest is of the load
			a.floors[s.Cells[i].Transport()], _, _ = strings.Cut(floor.Name, " of ")
		}
	}
	return a
}

// rows returns the cells of a load, the best by metric first.
func (a *answerSet) rows(metric, profile, inFlight string, keep func(*set.Cell) bool) []*set.Cell {
	var cells []*set.Cell
	for i := range a.Cells {
		c := &a.Cells[i]
		if c.Config["profile"] == profile &&
			(inFlight == "" || c.Config["in_flight"] == inFlight) &&
			c.Track() != config.TrackMatched.String() && keep(c) {
			cells = append(cells, c)
		}
	}
	rows := shownCells(cells, compare.ShownOf(a.Set))
	slices.SortStableFunc(rows, func(x, y *set.Cell) int {
		order := cmp.Compare(medianOf(x, metric), medianOf(y, metric))
		if result.Define(metric).Better == result.Higher {
			return -order
		}
		return order
	})
	return rows
}

func all(*set.Cell) bool { return true }

// kernelFloor matches the names of floors of the kernel's sockets.
var kernelFloor = regexp.MustCompile(`(?i)tcp|udp|unix|vsock|socket|datagram`)

func (a *answerSet) kernel(c *set.Cell) bool {
	return kernelFloor.MatchString(a.floors[c.Transport()])
}

// markdown writes a table. Columns of numbers have headers that begin with ">".
func markdown(w *bytes.Buffer, headers []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	names, marks := slices.Clone(headers), slices.Repeat([]string{"---"}, len(headers))
	for i, header := range headers {
		name, number := strings.CutPrefix(header, ">")
		if names[i] = name; number {
			marks[i] = "---:"
		}
	}
	line(names)
	line(marks)
	for _, row := range rows {
		line(row)
	}
}

// windows names the windows of rows that show the same state.
func (a *answerSet) windows(rows []*set.Cell) string {
	least, state := len(rows[0].Windows), "all states"
	for _, c := range rows {
		least = min(least, len(c.Windows))
	}
	if least > 0 && a.states.Count() > 1 {
		state = "the state " + a.states.Of(rows[0].Windows[0])
		for _, c := range rows {
			if a.states.Of(c.Windows[0]) != a.states.Of(rows[0].Windows[0]) {
				state = "all states"
			}
		}
	}
	return fmt.Sprintf("%d windows or more in %s of the machine", least, state)
}

func value(c *set.Cell, metric string) string { return sampled(c, metric, doc.Median).Text }

func intervalOf(c *set.Cell, metric string) string {
	m, known := c.Metric(metric)
	if !known || m.Low == nil {
		return "-"
	}
	return format.Interval(m)
}

// times returns a as a multiple of b.
func times(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return format.Digits(a/b) + "x"
}

// byMetric writes a table of one metric of a load, with how far each transport is from the best.
func (a *answerSet) byMetric(w *bytes.Buffer, what, metric string, list []*set.Cell) {
	if len(list) == 0 {
		fmt.Fprintf(w, "%s has no such transport.\n", a.dir)
		return
	}
	var rows [][]string
	for _, c := range list {
		rows = append(rows, []string{"`" + c.Transport() + "`", provider(c), value(c, metric),
			intervalOf(c, metric),
			times(medianOf(c, metric), medianOf(list[0], metric)),
			cmp.Or(a.floors[c.Transport()], "-")})
	}
	fmt.Fprintf(w, "%s; %s:\n\n", what, a.windows(list))
	markdown(w, []string{"transport", "provider", ">" + metricName(metric), ">95% interval",
		">of the best", "floor"}, rows)
}

func metricName(metric string) string { return strings.ReplaceAll(metric, "latency_", "") }

// answers has a writer for each question.
var answers = map[string]func(*bytes.Buffer, *answerSet){
	"hosts": func(w *bytes.Buffer, a *answerSet) {
		a.byMetric(w, "One call in flight within one host", result.LatencyP50,
			a.rows(result.LatencyP50, "echo", "1", all))
	},
	"sizes": func(w *bytes.Buffer, a *answerSet) {
		a.byMetric(w, "Small messages (`echo`, 32 in flight)", result.Throughput,
			a.rows(result.Throughput, "echo", "32", all))
		fmt.Fprintln(w)
		a.byMetric(w, "Large messages (`bulk`)", result.Goodput,
			a.rows(result.Goodput, "bulk", "", all))
	},
	"in-flight": func(w *bytes.Buffer, a *answerSet) {
		many := map[string]*set.Cell{}
		for _, c := range a.rows(result.Throughput, "echo", "32", all) {
			many[c.Transport()] = c
		}
		var rows [][]string
		one := a.rows(result.LatencyP50, "echo", "1", all)
		for _, c := range one {
			m := many[c.Transport()]
			if m == nil {
				continue
			}
			rows = append(rows, []string{"`" + c.Transport() + "`", value(c, result.LatencyP50),
				value(c, result.Throughput), value(m, result.Throughput),
				times(medianOf(m, result.Throughput), medianOf(c, result.Throughput)),
				value(m, result.LatencyP50)})
		}
		fmt.Fprintf(w, "Small messages (`echo`); %s:\n\n", a.windows(one))
		markdown(w, []string{"transport", ">p50 with 1", ">throughput with 1",
			">throughput with 32", ">gain", ">p50 with 32"}, rows)
	},
	"kernel": func(w *bytes.Buffer, a *answerSet) {
		a.byMetric(w, "Over the kernel's sockets, one call in flight (`echo`)", result.LatencyP50,
			a.rows(result.LatencyP50, "echo", "1", a.kernel))
		fmt.Fprintln(w)
		a.byMetric(w, "The same with 32 in flight", result.Throughput,
			a.rows(result.Throughput, "echo", "32", a.kernel))
	},
	"usual": func(w *bytes.Buffer, a *answerSet) {
		shown := false
		for _, usual := range []string{"grpc", "sockets"} {
			if shown {
				fmt.Fprintln(w)
			}
			shown = a.against(w, usual) || shown
		}
		if !shown {
			fmt.Fprintf(w, "%s has neither `grpc` nor `sockets`, so it cannot answer this.\n",
				a.dir)
		}
	},
}

// against writes how every transport compares with a usual one, which has the value 1. It returns
// false if the results do not have that one.
func (a *answerSet) against(w *bytes.Buffer, usual string) bool {
	type column struct{ header, metric, profile, inFlight string }
	columns := []column{
		{">p50, 1 call", result.LatencyP50, "echo", "1"},
		{">throughput, 32 calls", result.Throughput, "echo", "32"},
		{">`kv` throughput", result.Throughput, "kv", "32"},
		{">`bulk` goodput", result.Goodput, "bulk", ""},
	}
	var names []string
	ratios := map[string][]string{}
	headers := []string{"transport"}
	for i, column := range columns {
		rows := a.rows(column.metric, column.profile, column.inFlight, all)
		at := slices.IndexFunc(rows, func(c *set.Cell) bool { return c.Transport() == usual })
		if at < 0 {
			return false
		}
		headers = append(headers, column.header)
		for _, c := range rows {
			name := c.Transport()
			if ratios[name] == nil {
				names = append(names, name)
				ratios[name] = slices.Repeat([]string{"-"}, len(columns))
			}
			ratios[name][i] = times(medianOf(c, column.metric), medianOf(rows[at], column.metric))
		}
	}
	var rows [][]string
	for _, name := range names {
		rows = append(rows, append([]string{"`" + name + "`"}, ratios[name]...))
	}
	fmt.Fprintf(w, "As multiples of `%s` (less is better for p50, more for the others):\n\n", usual)
	markdown(w, headers, rows)
	return true
}
