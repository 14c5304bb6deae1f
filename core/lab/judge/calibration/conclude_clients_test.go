package calibration

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// One client needs 1.1 ms for a call, 100 us of which are the daemon's. Those of 4 clients never
// wait for each other if times are fixed, and 16 keep the daemon busy.
func TestRecoveryOfClients(t *testing.T) {
	s := newSynthetic(3, 0, 0)
	e := s.experiment(ExperimentClients, []float64{1, 4, 16}, 10,
		func(cell int, _ float64) map[string]float64 {
			return closedLoop([]float64{1.1e6, 1.1e6 / 4, 100e3}[cell])
		})
	for i := range e.Set.Cells {
		e.Set.Cells[i].Config["options.daemon-time"] = "100µs"
	}
	d := concluded(t, e)
	require.Len(t, d.Recovery, 4)
	for i, want := range []struct {
		quantity        string
		known, measured float64
	}{
		{"4 clients: exponential", 0.972 * 4 / 1.1e-3, 4 / 1.1e-3},
		{"4 clients: fixed times", 4 / 1.1e-3, 4 / 1.1e-3},
		{"16 clients: exponential", 0.978e4, 1e4},
		{"16 clients: fixed times", 1e4, 1e4},
	} {
		r := d.Recovery[i]
		require.Equal(t, want.quantity, r.Quantity)
		require.InEpsilon(t, want.known, r.Known, 2e-3)
		require.InEpsilon(t, want.measured, r.Measured.Value, 1e-9)
		require.Equal(t, 10, r.Windows)
		require.Equal(t, i%2 == 0, r.Within, "only the model promises")
	}
}
