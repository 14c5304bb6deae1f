package terminal

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/core/base/printable"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// Severities are coloured on a terminal, and what looks like a colour is not.
func TestTerminalColours(t *testing.T) {
	const red, bold, green, yellow, off = "\x1b[31m", "\x1b[31;1m", "\x1b[32m", "\x1b[33m",
		"\x1b[0m"
	d := new(doc.Doc)
	d.Finding(doc.Note, result.Error, "verified: shm: wrong\x1b[2J")
	d.Finding(doc.Paragraph, result.Warning, "drift: shm")
	d.Line("BETTER or WORSE")
	table := doc.NewTable("cell", "verdict")
	table.Row("shm", doc.Cell{Text: "WORSE", Severity: result.Error})
	table.Row("ofi", doc.Cell{Text: "BETTER", Severity: doc.Good})
	d.Add(table)
	want := bold + "error" + off + `: verified: shm: wrong\x1b[2J` + "\n" + yellow +
		"warning" + off +
		": drift: shm\nBETTER or WORSE\ncell  verdict\n-------------\nshm   " + red +
		"WORSE" + off +
		"\nofi   " + green + "BETTER" + off + "\n"
	for _, colour := range []bool{true, false} {
		var out bytes.Buffer
		w := &Terminal{out: &out, width: func() int { return 100 }, colour: colour}
		safe := printable.NewWriter(w)
		_, err := safe.Write([]byte("first\n"))
		require.NoError(t, err)
		Print(safe, d)
		require.NoError(t, safe.Flush())
		require.NoError(t, w.Flush())
		shown := strings.TrimPrefix(out.String(), "first\n")
		if !colour {
			for _, sequence := range []string{red, bold, green, yellow, off} {
				want = strings.ReplaceAll(want, sequence, "")
			}
		}
		require.Equal(t, want, shown)
	}
}

func TestTerminalLeavesDocumentsAlone(t *testing.T) {
	long := strings.Repeat("error: WORSE ", 20) + "\n"
	var out bytes.Buffer
	w := &Terminal{out: &out, width: func() int { return 40 }, colour: true}
	_, err := fmt.Fprint(w, "{\n"+long)
	require.NoError(t, err)
	require.Equal(t, "{\n"+long, out.String())

	out.Reset()
	w = &Terminal{out: &out, width: func() int { return 40 }, colour: true}
	Verbatim(printable.NewWriter(w))
	_, err = fmt.Fprint(w, long)
	require.NoError(t, err)
	require.Equal(t, long, out.String())
	Verbatim(&out) // nothing to do
}

// terminalWith returns a terminal of the given width, and what it shows.
func terminalWith(width int) (*Terminal, *bytes.Buffer) {
	var out bytes.Buffer
	return &Terminal{out: &out, width: func() int { return width }}, &out
}

// TestTablesFitTheTerminal writes tables for terminals. No line may be longer than the terminal,
// nor broken in a cell.
func TestTablesFitTheTerminal(t *testing.T) {
	s, err := set.Load("../../../../results/v0.8.0/amd-epyc-2core-vm")
	require.NoError(t, err)
	ranking, err := compare.Along(s, "transport", compare.Defaults())
	require.NoError(t, err)
	report, err := compare.Diff(s, s, compare.Defaults())
	require.NoError(t, err)
	results, err := s.Results(&s.Cells[0])
	require.NoError(t, err)
	list := []listing.Plugin{{Name: "shm", Path: "/a/long/path/to/the/plugins/transport-shm",
		SHA256: strings.Repeat("ab", 32), Description: &plugin.Description{Info: transport.Info{
			Name: "shm", Version: "0.1.0", Providers: []string{"memfd", "hugepages",
				"posix", "sysv",
				"tcp", "self", "cma", "verbs", "dc", "ud"}, Groups: []transport.Group{"memory"},
			Choose: strings.Repeat(
				"for processes of one host that can give a processor to each thread ", 3),
			Options: []transport.Option{{Name: "congestion-control", Default: "several words here",
				Allowed: []string{"one", "two", "three-or-more"},
				Help:    strings.Repeat("what it does and why ", 8)}}}}},
		{Name: "erpc", Path: "/a/long/path/to/the/plugins/transport-erpc",
			Unavailable: "libraries are missing: install them with apt, and try again"}}
	for _, width := range []int{60, 80, 100, 160} {
		out, shown := terminalWith(width)
		Print(out, tables.Comparison(s))
		Print(out, tables.Work(s))
		Print(out, findings.Ranking(ranking))
		Print(out, findings.Diff(report, true))
		Print(out, tables.Result(results[0]))
		Print(out, listing.Plugins(list))
		Print(out, listing.PluginDetails(list[0]))
		for line := range strings.Lines(shown.String()) {
			line = strings.TrimSuffix(line, "\n")
			if !strings.Contains(line, "/a/long") && !strings.Contains(line, "ababab") {
				require.Less(t, utf8.RuneCountInString(line), width, "%q", line)
			}
		}
		require.Equal(t, width >= 80, strings.Contains(shown.String(), "1 warning"))
		require.Contains(t, shown.String(), "libraries are", "why a plugin is not available")
	}
}

func TestWidth(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	t.Setenv("TERM", "xterm")
	for _, columns := range []int{60, 200, 5} {
		require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ,
			&unix.Winsize{Col: uint16(columns), Row: 24}))
		require.Equal(t, columns, newScreen(OnTerminal(terminal)).width())
		require.Equal(t, columns, newScreen(printable.NewWriter(OnTerminal(terminal))).width())
	}
	require.Nil(t, newScreen(new(bytes.Buffer)).width)
}
