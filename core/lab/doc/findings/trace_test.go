package findings

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/judge/analyze"
)

// Response times over a trace are a bar for each step, beside the rate that was due.
func TestReplayTimes(t *testing.T) {
	times := &analyze.ReplayTimes{Worst: analyze.ReplaySpan{At: 90e9, For: 10e9, Rate: 7e3,
		P50: 40e3, P99: 8e6}}
	for i := range record.Steps {
		times.Steps = append(times.Steps, analyze.ReplaySpan{For: 2e9, Rate: 1e3 * float64(i),
			P50: 40e3, P99: 1e6})
	}
	times.Steps[50].P99 = 8e6
	var b strings.Builder
	write(&b, replayTimes(times))
	text := b.String()
	require.Contains(t, text, "2.00 s a bar")
	require.Regexp(t, `rate +▁+▂+▃+▄+▅+▆+▇+█ +0 op/s +59\.0 K op/s`, text)
	require.Regexp(t, `p99 +▁{50}█▁{9} +1\.00 ms +8\.00 ms`, text)
	require.Contains(t, text, "the worst 10.0 s of the trace, from 90.0 s on: p99 8.00 ms, "+
		"p50 40.0 us, 7.00 K op/s due")
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 112, line)
	}
}
