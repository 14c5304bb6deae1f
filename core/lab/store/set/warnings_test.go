package set

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

func TestWarningsOfCellsThatDifferInNumbersAreOne(t *testing.T) {
	var g WarningGroups
	add := func(side, cell, check string, severity result.Severity, message string) {
		g.Add(side, cell, result.Finding{Name: check, Severity: severity, Message: message})
	}
	add("old", "a", "served", result.Warning, "2.1% was taken: p99 is 9 us")
	add("old", "b", "served", result.Warning, "10% was taken: p99 is 40 us")
	add("new", "b", "served", result.Warning, "0.5% was taken: p99 is 1e+03 us")
	add("new", "b", "served", result.Warning, "0.5% was taken: p50 is 3 us")
	add("new", "b", "virtual_machine", result.Info, "a virtual machine")
	add("new", "c", "work", result.Error, "wrong")
	require.Equal(t, []GroupedWarning{
		{Check: "work", Severity: result.Error, Message: "wrong", Sides: []string{"new"},
			Cells: []string{"c"}},
		{Check: "served", Severity: result.Warning,
			Message: "0.5 to 10% was taken: p99 is 9 to 1e+03 us", Sides: []string{"old", "new"},
			Cells: []string{"a", "b"}},
		{Check: "served", Severity: result.Warning, Message: "0.5% was taken: p50 is 3 us",
			Sides: []string{"new"}, Cells: []string{"b"}},
	}, g.List())
}

// A disturbed machine is one line, after errors and before other warnings.
func TestDisturbedMachineIsOneLine(t *testing.T) {
	var g, each WarningGroups
	each.Info = true
	add := func(cell, check string, value float64) {
		f := result.Finding{Name: check, Severity: result.Warning, Value: value, Message: check}
		g.Add("", cell, f)
		each.Add("", cell, f)
	}
	add("a", "fairness", 0.4)
	add("a", FloorBeaten, 0.3)
	add("a", "steal", 0.02)
	add("b", "steal", 0.05)
	add("b", "preempted", 0.03)
	g.Add("", "d", result.Finding{Name: "served", Severity: result.Error, Message: "lost"})
	require.Equal(t, GroupedWarning{Check: Disturbed, Severity: result.Warning,
		Message: "steal 2% to 5%, preemption 3%: p50 is safe, throughput may be 8% off, and " +
			"tails include it", Cells: []string{"a", "b"}}, g.List()[1])
	add("c", "mixed", 0.25)
	add("c", "drift", -0.12)
	add("c", "drift", 0.1201)
	var names []string
	for _, w := range g.List() {
		names = append(names, w.Check)
	}
	require.Equal(t, []string{"served", Disturbed, FloorBeaten, "fairness"}, names)
	require.Equal(t, "steal 2% to 5%, preemption 3%, drift 12%, mixed windows 25%: p50 is safe, "+
		"throughput may be 8% off, and tails include it; where the rate drifts, measure again; "+
		"of mixed windows, use the rows of one state", g.List()[1].Message)
	add("c", "preempted", 0.47)
	require.Contains(t, g.List()[1].Message, "p50 is safe", "in no cell others took half")
	add("b", "preempted", 0.5)
	require.Equal(t, "steal 2% to 5%, preemption 3% to 50%, drift 12%, mixed windows 25%: where "+
		"threads ran for less than half of the time, neither p50 nor throughput is safe: measure "+
		"on a quiet machine; where the rate drifts, measure again; of mixed windows, use the "+
		"rows of one state", g.List()[1].Message)
	require.Len(t, each.List(), 6, "the details name each")
}

// Failed checks of sets of 0.8.0 and before have no values.
func TestDisturbanceWithoutValues(t *testing.T) {
	var g WarningGroups
	g.Add("", "a", result.Finding{Name: "drift", Severity: result.Warning, Message: "drift"})
	require.Equal(t, "drift: where the rate drifts, measure again", g.List()[0].Message)
}
