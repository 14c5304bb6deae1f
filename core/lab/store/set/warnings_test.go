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
	add("old", "a", "steal", result.Warning, "2.1% was taken: p99 is 9 us")
	add("old", "b", "steal", result.Warning, "10% was taken: p99 is 40 us")
	add("new", "b", "steal", result.Warning, "0.5% was taken: p99 is 1e+03 us")
	add("new", "b", "steal", result.Warning, "0.5% was taken: p50 is 3 us")
	add("new", "b", "virtual_machine", result.Info, "a virtual machine")
	add("new", "c", "work", result.Error, "wrong")
	require.Equal(t, []GroupedWarning{
		{Check: "work", Severity: result.Error, Message: "wrong", Sides: []string{"new"},
			Cells: []string{"c"}},
		{Check: "steal", Severity: result.Warning,
			Message: "0.5 to 10% was taken: p99 is 9 to 1e+03 us", Sides: []string{"old", "new"},
			Cells: []string{"a", "b"}},
		{Check: "steal", Severity: result.Warning, Message: "0.5% was taken: p50 is 3 us",
			Sides: []string{"new"}, Cells: []string{"b"}},
	}, g.List())
}
