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
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

func TestTerminalWraps(t *testing.T) {
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
		require.Equal(t, c.want, wrapLine(c.line, 30), c.line)
	}
}

func TestTerminalColours(t *testing.T) {
	const red, green, yellow, off = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"
	for line, want := range map[string]string{
		"error: verified: shm: wrong": "\x1b[31;1merror" + off + ": verified: shm: wrong",
		"OVERSUBSCRIBED: 2 threads":   "\x1b[31;1mOVERSUBSCRIBED" + off + ": 2 threads",
		"warning: drift: shm":         yellow + "warning" + off + ": drift: shm",
		"shm kv  p50  +30%  WORSE":    "shm kv  p50  +30%  " + red + "WORSE" + off,
		"shm kv  p50  -30%  BETTER  by": "shm kv  p50  -30%  " + green + "BETTER" +
			off + "  by",
		"kv  tcpx  800 K op/s  1 FAILED, ok": "kv  tcpx  800 K op/s  " + red + "1 FAILED" +
			off + ", ok",
		"kv  tcpx  800 K op/s  2 warnings": "kv  tcpx  800 K op/s  " + yellow +
			"2 warnings" + off,
		"tcpx kv: failed: rank 1: no answer": "tcpx kv: " + red + "failed" + off +
			": rank 1: no answer",
		`{"verdict": "WORSE"}, NOTWORSE`: `{"verdict": "WORSE"}, NOTWORSE`,
	} {
		var out bytes.Buffer
		w := &Terminal{out: &out, width: func() int { return 100 }, colour: true}
		_, err := fmt.Fprint(w, "first\n"+line) // the line is not complete
		require.NoError(t, err)
		require.Equal(t, "first\n", out.String())
		require.NoError(t, w.Flush())
		require.Equal(t, "first\n"+want, out.String())

		out.Reset()
		w.colour = false
		_, err = fmt.Fprintln(w, line)
		require.NoError(t, err)
		require.Equal(t, line+"\n", out.String())
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

// terminalOf returns a terminal of the given width, and what it shows.
func terminalOf(width int) (*Terminal, *bytes.Buffer) {
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
		out, shown := terminalOf(width)
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
