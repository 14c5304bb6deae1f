package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
)

// A measurement that begins on a busy machine says that it takes longer than expected.
func TestBusyMachine(t *testing.T) {
	var e machine.Environment
	e.Identity.CPUs = 2
	for load, want := range map[string]string{"": "", "1.00 9.00 9.00": "",
		"20.40 1.00 1.00": "; load 20 on 2 processors: this takes longer, and results will be " +
			"disturbed"} {
		e.Volatile.LoadAverage = load
		require.Equal(t, want, busy(&e))
	}
}
