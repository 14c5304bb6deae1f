package doc

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

func sample() *Doc {
	d := new(Doc)
	d.Heading("transports")
	d.Line("the bytes of %s", "all")
	t := NewTable("transport", ">p50", ">ops", ">change", "checks", "why").Drop("change",
		"ops").Wrap(10, "why")
	t.Row("shm", Median(result.Metric{Unit: "ns", Median: 1234}), 12, Change(new(0.5)),
		result.Warning, "steal of the machine was high in each window")
	t.Row("tcpx", None(), uint64(3), Change(nil), "-", "")
	d.Add(t)
	d.Note("a note")
	d.Gap()
	return d
}

func shown(t *testing.T, d *Doc, width int) string {
	var out bytes.Buffer
	require.NoError(t, WriteText(&out, d, Screen{Width: width}))
	return out.String()
}

func TestText(t *testing.T) {
	require.Equal(t, `transports
the bytes of all
transport      p50  ops  change  checks   why
--------------------------------------------------------------------------------------
shm        1.23 us   12  +50.0%  warning  steal of the machine was high in each window
tcpx             -    3       -  -
a note

`, shown(t, sample(), 0))
}

// A narrow terminal wraps texts, and then leaves columns out and says which.
func TestNarrow(t *testing.T) {
	require.Contains(t, shown(t, sample(), 60), "steal of the\n")
	narrow := shown(t, sample(), 42)
	for line := range strings.SplitSeq(narrow, "\n") {
		require.LessOrEqual(t, len(line), 41, line)
	}
	require.Contains(t, narrow, "left out for lack of room: change, ops")
}

func TestMarkdown(t *testing.T) {
	require.Equal(t, `### transports

the bytes of all
| transport | p50 | ops | change | checks | why |
| --- | ---:| ---:| ---:| --- | --- |
| shm | 1.23 us | 12 | +50.0% | warning | steal of the machine was high in each window |
| tcpx | - | 3 | - | - |  |
- a note

`, Markdown(sample()))
}

func TestHTML(t *testing.T) {
	require.Equal(t, `<h3>transports</h3>
<div class="scroll" tabindex="0" role="region" aria-label="the bytes of all"><table><caption>the bytes of all</caption><thead><tr><th scope="col">transport</th><th scope="col" class="right">p50</th><th scope="col" class="right">ops</th><th scope="col" class="right">change</th><th scope="col">checks</th><th scope="col" class="long">why</th></tr></thead><tbody><tr><th scope="row">shm</th><td class="right" data-value="1234">1.23 us</td><td class="right">12</td><td class="right" data-value="0.5">+50.0%</td><td class="warning">warning</td><td class="long">steal of the machine was high in each window</td></tr>
<tr><th scope="row">tcpx</th><td class="right">-</td><td class="right">3</td><td class="right">-</td><td>-</td><td class="long"></td></tr></tbody></table></div>
<ul>
<li>a note</li>
</ul>
`, HTML(sample()))
}

func TestCSV(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, WriteCSV(&out, sample().Blocks[2].(*Table)))
	require.Equal(t, `transport,p50,ops,change,checks,why
shm,1234,12,0.5,warning,steal of the machine was high in each window
tcpx,,3,,,
`, out.String())
}

// Text of foreign origin commands neither a terminal nor what shows Markdown, HTML or a
// spreadsheet.
func TestHostile(t *testing.T) {
	const bad = "\x1b[2J<script>alert(1)</script>|[x](http://a)@all\u202e\n# forged"
	d := new(Doc)
	d.Heading("%s", bad)
	d.Note("%s", bad)
	d.Titled(bad, bad)
	table := NewTable(bad)
	table.Columns[0].Help = bad + `"`
	table.Row(bad)
	table.Row("=1+1")
	d.Add(table, &Fold{Title: "all", Doc: Doc{Blocks: []Block{table}}})
	plain := shown(t, d, 0)
	var values bytes.Buffer
	require.NoError(t, WriteCSV(&values, table))
	for _, shown := range []string{plain, Markdown(d), HTML(d), values.String()} {
		require.NotContains(t, shown, "\x1b")
		require.NotContains(t, shown, "\u202e")
		require.NotContains(t, shown, "\n# forged")
	}
	for _, shown := range []string{strings.ReplaceAll(Markdown(d), `\<`, ""), HTML(d)} {
		require.NotContains(t, shown, "<script")
	}
	require.NotContains(t, Markdown(d), "](http://")
	rows, err := csv.NewReader(&values).ReadAll()
	require.NoError(t, err)
	require.Equal(t, "'=1+1", rows[2][0])
}

func TestColumnsAreLeftOut(t *testing.T) {
	render := func(width int) string {
		table := NewTable("name", ">first", ">second", "third", "text").Drop("second",
			"first").Wrap(10, "text")
		table.Row("a", "12345678", "12345678", "12345678", "some words to wrap")
		return shown(t, &Doc{Blocks: []Block{table}}, width)
	}
	require.Contains(t, render(80), "\na     12345678  12345678  12345678  some words to wrap\n")
	require.Contains(t, render(50), "12345678  12345678  12345678  some words")
	require.NotContains(t, render(50), "left out")
	require.Contains(t, render(40), "left out for lack of room: second\n")
	require.Contains(t, render(31), "left out for lack of room:\n  second, first\n")
}

// A stream and a file wrap the explanations in a table at 120 characters, and keep names whole. A
// stream leaves columns of a narrow table out, and a file none.
func TestTableInAStream(t *testing.T) {
	d := new(Doc)
	table := NewTable("name", "").Wrap(20, "")
	table.Row("throughput", strings.Repeat("operations ", 20))
	d.Add(table)
	var out bytes.Buffer
	require.NoError(t, WriteText(&out, d, Screen{}))
	lines := strings.Split(out.String(), "\n")
	require.Greater(t, len(lines), 4)
	for _, line := range lines {
		require.LessOrEqual(t, len(line), 120)
	}

	name, value, more := strings.Repeat("a", 70), strings.Repeat("b", 70), strings.Repeat("c", 20)
	wide := NewTable(name, value, more, "names").Drop(more).Wrap(10, "names")
	wide.Row("1", "2", "3", "some names that stay whole")
	wide.Narrow = true
	for stream, want := range map[bool]string{
		false: "a{70} +b{70} +c{20} +names\n-+\n1 +2 +3 +some names that stay whole\n$",
		true: "a{70} +b{70} +names\n-+\n1 +2 +some names that stay whole\n" +
			"left out for lack of room: c{20}\n$",
	} {
		out.Reset()
		require.NoError(t,
			WriteText(&out, &Doc{Blocks: []Block{wide}}, Screen{Stream: stream}))
		require.Regexp(t, want, out.String())
	}
}

func TestWithoutWarnings(t *testing.T) {
	d := new(Doc)
	d.Line("result")
	d.Finding(Note, result.Error, "wrong")
	d.Finding(Note, result.Warning, "doubtful")
	d.Finding(Note, result.Info, "of interest")
	var out bytes.Buffer
	require.NoError(t, WriteText(&out, d.WithoutWarnings(), Screen{}))
	require.Equal(t, "result\nerror: wrong\n", out.String())
}

func TestMarkdownEscapes(t *testing.T) {
	const (
		hostile = "a|b\\|c `x` <img src=y> *z* [t](http://e.x) &#x202e; www.e.x a@e.x"
		escaped = "a&#124;b\\\\&#124;c \\`x\\` \\<img src=y> \\*z\\* [t\\](http:\\//e.x) " +
			"\\&#x202e; www\\.e.x a\\@e.x"
	)
	table := NewTable("name", ">"+hostile)
	table.Row(hostile, 1.5)
	require.Equal(t, "| name | "+escaped+" |\n| --- | ---:|\n| "+escaped+" | 1.5 |\n",
		Markdown(&Doc{Blocks: []Block{table}}))
}

// Texts are wrapped to a terminal that is narrower than other outputs.
func TestProse(t *testing.T) {
	for width, want := range map[int]int{0: prose, 60: 59, 200: prose, 5: Narrowest} {
		require.Equal(t, want, screen{width: width}.prose())
	}
}

func TestWrapLine(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"short", "short"},
		{"warning: drift: the rate falls by a lot within each window",
			"warning: drift: the rate falls\n  by a lot within each window"},
		{"      --flag string   the help of this flag is long",
			"      --flag string   the help\n        of this flag is long"},
		{"  -v  the help of this flag is long enough",
			"  -v  the help of this flag is\n      long enough"},
		{"results in /a/path/that/is/longer/than/the/line and more",
			"results in\n  /a/path/that/is/longer/than/the/line\n  and more"},
		{"größe größe größe größe größe größe", "größe größe größe größe größe\n  größe"},
	} {
		require.Equal(t, c.want, WrapLine(c.line, 30), c.line)
	}
}
