package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

// TestInjectedFaults checks that a run finds the faults of a transport. Responses may come in any
// order, and the runtime does not rely on the order of requests, so reordering is no fault of a
// run; the conformance suite finds it. A client waits 24 s for calls that were lost, as the tests
// of core/runtime/rank check with a shorter wait, so a real transport loses calls only where all
// cases of links are asked for.
func TestInjectedFaults(t *testing.T) {
	for fault, c := range map[string]struct {
		code     int
		says     string // the check verified, or the error of a run that does not complete
		failures string
	}{
		"none":            {code: 0},
		"lose-every":      {code: 1, says: "the transport lost them"},
		"corrupt-every":   {code: 4, says: "bad-checksum", failures: "bad-checksum"},
		"duplicate-every": {code: 4, says: "unknown token", failures: "unknown token"},
		"reorder-every":   {code: 0},
	} {
		t.Run(fault, func(t *testing.T) {
			if fault == "lose-every" && linkRuns() == 0 {
				t.Skip("it waits 24 s for lost calls: set LINK_TEST_RUNS to a number of runs")
			}
			args := append([]string{"run", "--json"}, short...)
			args = append(args, "--transport", "calibration", "--in-flight", "4", "--verify-every",
				"1", "--repeats", "1")
			if fault != "none" {
				args = append(args, "--set", fault+"=100")
			}
			i := command(t, args...)
			require.Equal(t, c.code, i.run(t), i.stderr.String())
			r, err := result.Parse(i.stdout.Bytes())
			require.NoError(t, err)
			verified := r.Checks[slices.IndexFunc(r.Checks,
				func(c result.Finding) bool { return c.Name == "verified" })]
			require.Equal(t, c.code == 0, verified.OK, verified.Message)
			require.Contains(t, verified.Message+i.stderr.String(), c.says)
			if c.failures != "" {
				require.NotZero(t, r.Repeats[0].Ranks[1].Clients[0].Failures[c.failures])
			}
		})
	}
}

// TestInjectedRate checks that the measured throughput is at most the injected rate, and that the
// plugin runs through the same host as the others.
func TestInjectedRate(t *testing.T) {
	args := append([]string{"run", "--json"}, short...)
	i := command(t, append(args, "--transport", "calibration", "--set", "rate=1000")...)
	require.Zero(t, i.run(t), i.stderr.String())
	r, err := result.Parse(i.stdout.Bytes())
	require.NoError(t, err)
	throughput := r.Summary[result.Throughput].Median
	require.LessOrEqual(t, throughput, 1010.0)
	require.NotZero(t, throughput)
}
