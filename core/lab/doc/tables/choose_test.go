package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// answered matches a block of a document that answers a question from committed results.
var answered = regexp.MustCompile(`(?s)<!-- answer: (\S+) -->\n.*?<!-- end of answer -->`)

// answers has the set and the writer for each question.
var answers = map[string]struct {
	dir   string
	write func(*answerSet, *bytes.Buffer)
}{
	"matrix":   {doctest.Standard, (*answerSet).matrix},
	"work":     {doctest.Standard, (*answerSet).work},
	"rates":    {doctest.Latency, (*answerSet).rates},
	"peers":    {doctest.Peers, (*answerSet).peers},
	"services": {doctest.Services, (*answerSet).services},
	"values":   {doctest.Services, (*answerSet).values},
	"curves":   {doctest.Curves, (*answerSet).curves},
	"what-if":  {doctest.Standard, (*answerSet).whatIf},
}

// TestPublishedAnswers compares the answers of the documents with the committed results that they
// are from. With -update it rewrites them.
func TestPublishedAnswers(t *testing.T) {
	sets := map[string]*answerSet{} // each is read once
	compareBlocks(t, answered, func(root string, block [][]byte) []byte {
		question := string(block[1])
		answer, known := answers[question]
		require.True(t, known, question)
		if sets[answer.dir] == nil {
			sets[answer.dir] = newAnswerSet(t, answer.dir, readPublished(t, root, answer.dir))
		}
		var text bytes.Buffer
		answer.write(sets[answer.dir], &text)
		return text.Bytes()
	})
}

// The rows of an answer are the cells of one load, in the state of the machine in which all of them
// have most windows.
type answerSet struct {
	*set.Set
	dir     string
	states  state.Classifier
	ranking *compare.Ranking
	floors  map[string]string // the name of each transport's medium floor
}

func newAnswerSet(t *testing.T, dir string, s *set.Set) *answerSet {
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // may have another calibration
	ranking, err := rankTransports(s)
	require.NoError(t, err)
	a := &answerSet{s, dir, state.NewClassifier(s), ranking, map[string]string{}}
	for i := range s.Cells {
		c := &s.Cells[i]
		results, err := s.Results(c)
		require.NoError(t, err)
		for _, r := range results { // none if the set is an index only
			if floor := r.Repeats[0].Before.Medium; floor != nil {
				a.floors[c.Transport()] = floor.Name
			}
		}
	}
	return a
}

// source names what was measured, where and when.
func (a *answerSet) source() string {
	first := &a.Cells[0]
	return fmt.Sprintf("%s; `%s`, version %s, revision %.8s, %s",
		format.MachineOf(a.Machine(first).Identity), a.dir, first.Tool.Version,
		first.Tool.Revision, first.StartedAt.Format(time.DateOnly))
}

// short names the set alone: README names its machine.
func (a *answerSet) short() string {
	return fmt.Sprintf("`%s`, revision %.8s", a.dir, a.Cells[0].Tool.Revision)
}

// rows returns the cells with these options by transport.
func (a *answerSet) rows(options ...string) map[string]*set.Cell {
	var cells []*set.Cell
	for i := range a.Cells {
		c := &a.Cells[i]
		matches := c.Status == set.Measured &&
			c.Config["track"] != config.TrackMatched.String()
		for _, option := range options {
			name, value, _ := strings.Cut(option, "=")
			matches = matches && c.Config[name] == value
		}
		if matches {
			cells = append(cells, c)
		}
	}
	rows := map[string]*set.Cell{}
	for _, c := range shownCells(cells, state.ShownOf(a.Set)) {
		rows[c.Transport()] = c
	}
	return rows
}

// windows says how many windows the rows show, and in which state of the machine.
func (a *answerSet) windows(all ...map[string]*set.Cell) string {
	lowest, highest := 0, 0
	states := map[string]bool{}
	for _, rows := range all {
		for _, c := range rows {
			if lowest == 0 || len(c.Windows) < lowest {
				lowest = len(c.Windows)
			}
			highest = max(highest, len(c.Windows))
			states[a.states.Of(c.Windows[0])] = true
		}
	}
	text := fmt.Sprintf("%d to %d windows", lowest, highest)
	if len(states) == 1 {
		for state := range states {
			text += " with " + state + " cores"
		}
	}
	return text
}

// letters returns the letters of the transports under a load: those that share one do not differ
// significantly in the metric.
func (a *answerSet) letters(metric string, rows map[string]*set.Cell) map[string]string {
	letters := map[string]string{}
	for i := range a.ranking.Groups {
		group := &a.ranking.Groups[i]
		first := group.Cells()[0]
		if row := rows[first.Transport()]; group.Metric != metric || row == nil ||
			row.Config["profile"] != first.Config["profile"] ||
			row.Config["in_flight"] != first.Config["in_flight"] {
			continue
		}
		if first.Config["track"] == config.TrackMatched.String() {
			continue
		}
		for k, c := range group.Cells() {
			letters[c.Transport()] = group.List[k].Group
		}
	}
	return letters
}

// markdown writes a table without the columns that have no value. Columns of numbers have headers
// that begin with ">".
func markdown(w *bytes.Buffer, headers []string, rows [][]string) {
	line := func(cells []string) {
		shown := []string{}
		for i, cell := range cells {
			if slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "-" }) {
				shown = append(shown, cell)
			}
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(shown, " | "))
	}
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

// byMetric returns the transports of rows, those with the lowest value first.
func byMetric(rows map[string]*set.Cell, metric string) []string {
	var names []string
	for name := range rows {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(rows[x].Median(metric), rows[y].Median(metric)),
			cmp.Compare(x, y))
	})
	return names
}

// value returns the median of a metric without the unit.
func value(c *set.Cell, metric, unit string) string {
	if c == nil {
		return "-"
	}
	return strings.TrimSuffix(sampled(c, metric, doc.Median).Text, unit)
}

// raised returns text with the letters of a transport behind it.
func raised(text, letters string) string {
	if letters == "" {
		return text
	}
	return text + "<sup>" + letters + "</sup>"
}

// medium returns what carries the messages of a transport, and its provider if that says more.
func (a *answerSet) medium(c *set.Cell) string {
	medium := "memory"
	switch floor := a.floors[c.Transport()]; {
	case strings.Contains(floor, "UDP"):
		medium = "UDP"
	case strings.Contains(floor, "TCP"):
		medium = "TCP"
	}
	provider, _, _ := strings.Cut(provider(c), ",")
	if strings.EqualFold(provider, medium) {
		return medium
	}
	return fmt.Sprintf("%s (`%s`)", medium, provider)
}

// matrix writes what each transport reaches under the standard loads.
func (a *answerSet) matrix(w *bytes.Buffer) {
	one, many := a.rows("profile=echo", "in_flight=1"), a.rows("profile=echo", "in_flight=32")
	kv, bulk := a.rows("profile=kv"), a.rows("profile=bulk")
	p50 := a.letters(result.LatencyP50, one)
	rates := a.letters(result.Throughput, many)
	store, large := a.letters(result.Throughput, kv), a.letters(result.Throughput, bulk)
	var rows [][]string
	for _, name := range byMetric(one, result.LatencyP50) {
		c := one[name]
		rows = append(rows, []string{"`" + name + "`", a.medium(c),
			raised(value(c, result.LatencyP50, ""), p50[name]), value(c, result.FloorRatio, ""),
			raised(value(many[name], result.Throughput, " op/s"), rates[name]),
			raised(value(kv[name], result.Throughput, " op/s"), store[name]),
			raised(value(bulk[name], result.Goodput, " GB/s"), large[name])})
	}
	markdown(w, []string{"transport", "medium (provider)", ">p50, 1 call", ">x floor",
		">op/s, 32 calls", ">`kv`, op/s", ">`bulk`, GB/s"}, rows)
	first := byMetric(one, result.LatencyP50)[0]
	fmt.Fprintf(w, "\n**One host, no NIC.** Medians of %s. Payloads: %s bytes in the first three "+
		"columns; values of %s bytes, half reads and half writes, with 32 calls in flight in "+
		"`kv`; writes of %s in `bulk`. %s.\n", a.windows(one, many, kv, bulk),
		one[first].Config["value_size"], kv[first].Config["value_size"],
		sizeOf(bulk[first].Config["value_size"]), a.source())
}

// sizeOf returns a size as options have it, such as 512KiB.
func sizeOf(text string) string {
	size, err := transport.ParseSize(text)
	if err != nil {
		return text
	}
	return transport.FormatSize(size)
}

// work writes what an operation costs the processors.
func (a *answerSet) work(w *bytes.Buffer) {
	kv, bulk := a.rows("profile=kv"), a.rows("profile=bulk")
	var rows [][]string
	for _, name := range byMetric(kv, result.BusyPerOp) {
		c := kv[name]
		rows = append(rows, []string{"`" + name + "`", value(c, result.BusyPerOp, ""),
			value(c, result.ProcessCPUPerOp, ""), value(c, result.CopiesPerOp, " /op"),
			value(c, result.SyscallsPerOp, " /op"),
			value(bulk[name], result.BusyPerOp, "")})
	}
	markdown(w, []string{"transport", ">`kv`: busy", ">all threads", ">copies", ">system calls",
		">`bulk`: busy"}, rows)
	fmt.Fprintf(w, "\nPer operation, client and server together. %s.\n", a.short())
}

// kept reports whether a cell's rate was kept in most windows.
func kept(c *set.Cell) bool {
	return !slices.ContainsFunc(c.Warnings, func(w result.Finding) bool {
		return w.Name == "rate" && w.Severity == result.Error
	})
}

// response returns a percentile of an open loop's response times, of all windows if the set has
// their histograms.
func response(c *set.Cell, metric string) string {
	if c != nil && !kept(c) {
		return "not kept"
	}
	if c == nil || c.Pooled[metric].Value == 0 {
		return value(c, metric, "")
	}
	return format.Time(c.Pooled[metric].Value)
}

// rates writes the response times of open loops of threads that spin.
func (a *answerSet) rates(w *bytes.Buffer) {
	slow, fast := a.rows("rate=20000", "idle=auto"), a.rows("rate=200000", "idle=auto")
	var rows [][]string
	for _, name := range byMetric(slow, result.ResponseP50) {
		rows = append(rows, []string{"`" + name + "`", response(slow[name], result.ResponseP50),
			response(fast[name], result.ResponseP50), response(fast[name], result.ResponseP99)})
	}
	markdown(w, []string{"transport", ">20k/s: p50", ">200k/s: p50", ">p99"}, rows)
	fmt.Fprintf(w, "\nUnder `kv`, from when each operation was due. %s.\n",
		a.short())
}

// peers writes how many times longer than its floor, its library and the reference tool a transport
// takes, for the loads that have one of the last two.
func (a *answerSet) peers(w *bytes.Buffer) {
	ratio := func(c *set.Cell, one, several string) string {
		if _, known := c.Metric(one); known {
			return value(c, one, "")
		}
		return value(c, several, "")
	}
	loads, providers := loadsOf(a.Cells), regexp.MustCompile(` (tls|provider)=\S*`)
	var cells []*set.Cell
	for i := range a.Cells {
		cells = append(cells, &a.Cells[i])
	}
	var rows [][]string
	for _, c := range shownCells(cells, state.ShownOf(a.Set)) {
		row := []string{providers.ReplaceAllString(loads.name(c), ""), "`" + c.Transport() + "`",
			provider(c), ratio(c, result.FloorRatio, result.OpTimeRatio),
			value(c, result.LibraryRatio, ""),
			ratio(c, result.WitnessRatio, result.WitnessTimeRatio)}
		if row[4] != "-" || row[5] != "-" {
			rows = append(rows, row)
		}
	}
	markdown(w, []string{"load", "transport", "provider", ">x floor", ">x library",
		">x reference tool"}, rows)
	fmt.Fprintf(w, "\n%s.\n", a.source())
}

// services writes what users see of few calls to parked threads, of a cache of blocks, and of many
// callers of one server.
func (a *answerSet) services(w *bytes.Buffer) {
	all, parked := a.rows("value_size=4096", "in_flight=1"), a.rows("rate=20000", "idle=park")
	cache, incast := a.rows("profile=kvcache"), a.rows("traffic=incast:8")
	var rows [][]string
	for _, name := range byMetric(all, result.LatencyP50) {
		rows = append(rows, []string{"`" + name + "`",
			response(parked[name], result.ResponseP50),
			value(parked[name], result.BusyPerOp, ""),
			value(cache[name], result.Throughput, " op/s"),
			value(incast[name], result.Throughput, " op/s")})
	}
	markdown(w, []string{"transport", ">20k/s, parked: p50", ">busy",
		">`kvcache`, op/s", ">`incast:8`, op/s"}, rows)
	fmt.Fprintf(w, "\n%s.\n", a.short())
}

// values writes how the time of a lone call, and the throughput of many, change with the size of
// the values.
func (a *answerSet) values(w *bytes.Buffer) {
	headers, metrics := []string{"transport"}, []string{}
	var columns []map[string]*set.Cell
	for _, calls := range []string{"1", "32"} {
		for size := int64(1 << 10); size <= 64<<10; size *= 4 {
			cells := a.rows("profile=kv", "in_flight="+calls,
				"value_size="+strconv.FormatInt(size, 10))
			if len(cells) == 0 {
				continue
			}
			columns = append(columns, cells)
			if calls == "1" {
				headers = append(headers, ">"+transport.FormatSize(size)+": p50")
				metrics = append(metrics, result.LatencyP50)
			} else {
				headers = append(headers,
					">"+transport.FormatSize(size)+", 32 calls: op/s")
				metrics = append(metrics, result.Throughput)
			}
		}
	}
	var rows [][]string
	for _, name := range byMetric(columns[0], result.LatencyP50) {
		row := []string{"`" + name + "`"}
		for i, cells := range columns {
			row = append(row, value(cells[name], metrics[i], " op/s"))
		}
		rows = append(rows, row)
	}
	markdown(w, headers, rows)
	fmt.Fprintf(w, "\nUnder `kv`: half reads and half writes, spinning threads. %s.\n", a.short())
}

// whatIf writes what the model predicts for echoes with one call and 32 calls in flight from each
// other, and what was measured.
func (a *answerSet) whatIf(w *bytes.Buffer) {
	one, many := a.rows("profile=echo", "in_flight=1"), a.rows("profile=echo", "in_flight=32")
	var rows [][]string
	for _, name := range byMetric(one, result.LatencyP50) {
		rows = append(rows, []string{"`" + name + "`",
			a.predicted(one[name], "in_flight=32"),
			value(many[name], result.Throughput, " op/s"),
			a.predicted(many[name], "in_flight=1"),
			value(one[name], result.Throughput, " op/s")})
	}
	markdown(w, []string{"transport", ">32 from 1: predicted", ">measured",
		">1 from 32: predicted", ">measured"}, rows)
	fmt.Fprintf(w, "\nEchoes, op/s. %s.\n", a.short())
}

// predicted returns the throughput of a cell after a change, or a dash if its results do not say.
func (a *answerSet) predicted(c *set.Cell, change string) string {
	results, err := a.Results(c)
	if err != nil {
		return err.Error()
	}
	analysis, err := analyze.Results(results)
	if err != nil || analysis.Model == nil {
		return "-"
	}
	p, err := analysis.Model.Predict(change)
	if err != nil {
		return "-"
	}
	return format.Magnitude(p.Throughput)
}
