package calibration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
	"transportbench/core/lab/store/set"
)

func estimate(value, low, high float64) Estimate { return Estimate{value, &low, &high} }

// somePairs is an outcome of which diff claims limit.
func somePairs(limit float64) *Pairs {
	return &Pairs{LastAt: time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC), Sets: 21, Repeats: 10,
		Revision: "0123456789abcdef", ApartS: 3780, Moved: 0.08, Limit: limit,
		False: estimate(0.08, 0.01, 0.2), Injected: 0.1, Quiet: 9, Found: estimate(0.85, 0.7, 0.95)}
}

// Equal sets of a machine decide the minimum effect between sets if they differ by more.
func TestLeastBetween(t *testing.T) {
	found := seen(0.05, false)
	share, from := minEffectBetween([]Found{found, {}}, 0.05, "some")
	require.Equal(t, 0.05, share)
	require.Equal(t, "some", from)
	found.Document.Alpha, found.Document.Pairs = 0.05, somePairs(0.03)
	share, _ = minEffectBetween([]Found{found}, 0.05, "some")
	require.Equal(t, 0.05, share)
	found.Document.Pairs.Limit = 0.12
	share, from = minEffectBetween([]Found{{}, found}, 0.05, "some")
	require.Equal(t, 0.12, share)
	require.Equal(t, "at most 5% of the pairs of 21 equal sets differ by more (calibration of "+
		"2026-03-04, calibration.json)", from)
}

func TestPairs(t *testing.T) {
	here := machine.Identity{CPU: "some", Arch: "amd64", Cores: 2}
	identity, err := set.Flatten(here)
	require.NoError(t, err)
	d := &Document{Alpha: 0.05, Environment: machine.Environment{Identity: here}}
	require.Empty(t, d.Summary())
	require.NoError(t, d.KeepPairs(somePairs(0.12), identity))
	const head = "diff of each two of 21 equal sets of revision 01234567, 63 minutes apart, " +
		"between which the machine moved by 8% (medians): 8% of the pairs have a false verdict " +
		"(1 to 20%); one transport slower by " +
		"10% is found in 85% of the pairs of 9 quiet sets (70 to 95%)"
	require.Equal(t, []string{head +
		"; with a minimum effect of 12%, which diff uses, at most 5% have one"}, d.Summary())
	d.Pairs.False.Value = 0.05
	require.NotContains(t, d.Summary()[0], "minimum effect", "there are no more than alpha")
	d.Pairs.Quiet = 0
	require.Contains(t, d.Summary()[0], "in 85% of the pairs (70 to 95%)")

	identity["cpu"] = "another"
	require.ErrorContains(t, d.KeepPairs(somePairs(0.12), identity),
		`another machine than the calibration: cpu "some" instead of "another"`)
}
