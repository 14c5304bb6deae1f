package tables

import (
	"testing"

	"transportbench/core/lab/store/set"
)

// For tests of findings, which need the packages that import this one.
var (
	CompareBlocks = compareBlocks
	Calibrated    = calibrated
)

// StatesApart returns a set of two transports of which the quicker one drew the slow state of the
// machine more often, and two versions of one transport like that.
func StatesApart(t *testing.T) (both, old, new *set.Set) {
	return setOf(t, drawn{"slow", 10, 0, 2e6, 0, 8}, drawn{"quick", 4, 6, 3e6, 1.5e6, 8}),
		setOf(t, drawn{"quick", 10, 0, 2e6, 0, 8}),
		setOf(t, drawn{"quick", 4, 6, 3e6, 1.5e6, 8})
}
