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
	return &Pairs{LastAt: time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC), Repeats: 10,
		Revision: "0123456789abcdef", ApartS: 3780, Limit: limit, Injected: 0.1,
		PairRates: PairRates{Sets: 21, Moved: 0.12, False: estimate(0.08, 0.01, 0.2),
			FalseOnTransports: estimate(0.01, 0, 0.1), FalseOnCells: estimate(0.07, 0.01, 0.2),
			Withheld: estimate(0.6, 0.5, 0.7), Found: estimate(0.5, 0.4, 0.6)},
		QuietPairs: &PairRates{Sets: 9, Moved: 0.02, FalseOnTransports: estimate(0, 0, 0.1),
			FalseOnCells: estimate(0.02, 0, 0.1), Withheld: estimate(0.1, 0, 0.2),
			Found: estimate(0.85, 0.7, 0.95)}}
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
	const all = "each two of 21 equal sets of revision 01234567, 63 minutes apart (median), with " +
		"a control and a minimum effect of 2% (diff): a transport differs in 1% of the pairs (0 " +
		"to 10%), a cell in 7% (1 to 20%); the machine moved by 12% (median, in the metric that " +
		"moved most), and 60% of the changes of cells have no verdict"
	const quiet = "the 9 quiet ones of these sets: a transport differs in 0% of the pairs (0 to " +
		"10%), a cell in 2% (0 to 10%); the machine moved by 2% (median, in the metric that " +
		"moved most), and 10% of the changes of cells have no verdict"
	const found = "one transport slower by 10%: found in "
	require.Equal(t, []string{
		all + "; with one of 12%, which diff uses, at most 5% have a verdict", quiet,
		found + "85% of the pairs of the quiet sets (70 to 95%)"}, d.Summary())
	d.Pairs.False.Value, d.Pairs.QuietPairs = 0.05, nil // no more than alpha
	require.Equal(t, []string{all, found + "50% of the pairs of these sets (40 to 60%)"},
		d.Summary())
	d.Pairs.FalseOnCells = Estimate{}
	require.Empty(t, d.Summary(), "of an older diff")

	identity["cpu"] = "another"
	require.ErrorContains(t, d.KeepPairs(somePairs(0.12), identity),
		`another machine than the calibration: cpu "some" instead of "another"`)
}
