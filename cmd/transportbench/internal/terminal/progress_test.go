package terminal

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/printable"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// aRun has the states that a run of two repeats reports to its observer.
var aRun = []runner.Status{
	{Step: runner.StepLaunch, Repeats: 2, Left: 2300 * time.Millisecond},
	{Step: runner.StepWarmup, Repeats: 2, Left: 2300 * time.Millisecond},
	{Step: runner.StepWarmup, Repeats: 2, OpsPerSec: 1e6, P50: 900, P99: 1100,
		Left: 2200 * time.Millisecond},
	{Step: runner.StepFloor, Repeats: 2, Left: 2 * time.Second},
	{Step: runner.StepRepeat, Repeat: 1, Repeats: 2, Left: 2 * time.Second},
	{Step: runner.StepRepeat, Repeat: 1, Repeats: 2, OpsPerSec: 2.5e6, P50: 350, P99: 1250,
		Left: 1500 * time.Millisecond},
	{Step: runner.StepRepeat, Repeat: 1, Repeats: 2, OpsPerSec: 2.6e6, P50: 340, P99: 1240,
		Left: time.Second},
	{Step: runner.StepFloor, Repeat: 1, Repeats: 2, Left: time.Second},
	{Step: runner.StepFloor, Repeat: 2, Repeats: 2, Left: time.Second},
	{Step: runner.StepRepeat, Repeat: 2, Repeats: 2, OpsPerSec: 2.4e6, P50: 360, P99: 1260,
		Left: time.Millisecond},
	{Step: runner.StepFloor, Repeat: 2, Repeats: 2},
	{Step: runner.StepClose, Repeats: 2},
}

func TestPlainProgressEarlyEnd(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, "shm kv")
	p.Progress(runner.Status{Step: runner.StepRepeat, Repeat: 1, Repeats: 2, OpsPerSec: 2.5e6,
		P50: 350, P99: 1250})
	p.Progress(runner.Status{Step: runner.StepClose, Repeats: 2})
	p.Close()
	require.Equal(t, "shm kv: repeat 1 of 2\nshm kv: repeat 1 of 2 ended early\n", out.String())
}

func TestPlainProgress(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, "shm kv")
	for _, s := range aRun {
		p.Progress(s)
	}
	p.Close()
	require.Equal(t, `shm kv: process start
shm kv: warmup
shm kv: repeat 1 of 2
shm kv: repeat 1 of 2 done, lately 2.60 M op/s, p50 340 ns, p99 1.24 us
shm kv: repeat 2 of 2
shm kv: repeat 2 of 2 done, lately 2.40 M op/s, p50 360 ns, p99 1.26 us
`, out.String())
}

// TestProgressOfAShortWarmup checks that the bar never goes back when a warm-up
// ends early and the remaining time jumps.
func TestProgressOfAShortWarmup(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, "shm kv")
	p.width = func() int { return 120 }
	states := []runner.Status{
		{Step: runner.StepLaunch, Repeats: 2, Left: 4 * time.Second},
		{Step: runner.StepWarmup, Repeats: 2, Left: 4 * time.Second},
		{Step: runner.StepWarmup, Repeats: 2, OpsPerSec: 1e6, Left: 3800 * time.Millisecond},
		{Step: runner.StepFloor, Repeat: 1, Repeats: 2, Left: 2 * time.Second},
		{Step: runner.StepRepeat, Repeat: 1, Repeats: 2, Left: 2 * time.Second},
		{Step: runner.StepClose, Repeats: 2},
	}
	done := 0
	for _, s := range states {
		out.Reset()
		p.Progress(s)
		bar := strings.Count(out.String(), "=")
		require.GreaterOrEqual(t, bar, done)
		done = bar
		require.Contains(t, out.String(), format.Left(s.Left)+" left")
	}
	require.Positive(t, done)
	p.Close()
}

func TestTerminalProgress(t *testing.T) {
	for _, width := range []int{200, 80, 40, 10} {
		var out bytes.Buffer
		p := NewProgress(&out, "shm kv")
		p.width = func() int { return width }
		for _, s := range aRun {
			p.Progress(s)
		}
		_, err := p.Write([]byte("level=ERROR msg=oops\n"))
		require.NoError(t, err)
		p.Progress(aRun[6])
		p.Close()

		log, rest, found := strings.Cut(out.String(), "level=ERROR msg=oops\n")
		require.True(t, found)
		require.True(t, strings.HasSuffix(log, "\r\x1b[K"), "the log has a line of its own")
		require.NotContains(t, log, "\n")
		require.True(t, strings.HasSuffix(rest, "\r\x1b[K"), "the line is gone at the end")
		for frame := range strings.SplitSeq(strings.ReplaceAll(log, "\x1b[K", ""), "\r") {
			require.LessOrEqual(t, utf8.RuneCountInString(frame), width, "%q", frame)
		}
		if width >= 80 {
			require.Contains(t, log, "shm kv: repeat 1 of 2 [")
			require.Contains(t, log, " 2.60 M op/s, p50 340 ns, p99 1.24 us, ")
			require.Contains(t, log, " 1s left")
		}
	}
}

// The line's own control sequences pass the writer that escapes all others, and text of the line
// has none.
func TestProgressOfForeignText(t *testing.T) {
	const hostile = "shm\x1b[2J\r\u202e größe"
	for _, width := range []int{120, 60, 12} {
		var out bytes.Buffer
		w := printable.NewWriter(&out)
		run, sweeping, calibration := NewProgress(w, hostile), NewSweepProgress(w),
			NewCalibrationProgress(w)
		for _, s := range []*screen{&run.screen, &sweeping.screen, &calibration.screen} {
			s.width = func() int { return width }
		}
		run.Progress(runner.Status{Step: runner.StepWarmup + hostile, Repeats: 2, OpsPerSec: 1})
		run.Close()
		status := experiment.Status{Label: hostile, Repeat: 1, Repeats: 2, Run: 1, Runs: 2}
		sweeping.Begin(status).Progress(runner.Status{OpsPerSec: 1e6})
		sweeping.Cell(status, &set.Cell{Status: set.Failed, Reason: hostile})
		sweeping.Close()
		calibration.Begin(status)
		_, err := calibration.Write([]byte(hostile + "\n"))
		require.NoError(t, err)
		require.NoError(t, w.Flush())

		text := out.String()
		if width == 120 {
			require.Contains(t, text, `shm\x1b[2J\r\u202e größe`)
		}
		for _, own := range []string{"\r", "\x1b[K", "\n"} {
			require.Contains(t, text, own)
			text = strings.ReplaceAll(text, own, "")
		}
		require.Equal(t, printable.Text(text), text)
	}
}

// The command's writer does not hide that it writes to a terminal.
func TestTerminalBehindWriter(t *testing.T) {
	t.Setenv("TERM", "xterm")
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	defer terminal.Close()
	require.NotNil(t, NewProgress(printable.NewWriter(terminal), "shm kv").width)
	require.Nil(t, NewProgress(printable.NewWriter(new(bytes.Buffer)), "shm kv").width)
}
