package comparison

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Too little power names what ended the measurement, or else the number of repeats.
func TestRemedyOfTooLittlePower(t *testing.T) {
	s := set.New()
	s.Environments = []set.Environment{{}}
	cell := set.Cell{Status: set.Measured, Config: map[string]string{"transport": "shm"},
		Samples: map[string][]float64{}}
	for i := range 10 {
		cell.Samples[result.Throughput] = append(cell.Samples[result.Throughput],
			1+0.03*float64(i))
	}
	s.Cells = []set.Cell{cell}
	r, err := compare.Diff(s, s, compare.Defaults())
	require.NoError(t, err)
	flags := &Flags{required: 0.05}
	require.ErrorContains(t, flags.verdictOf(r, false),
		"; measure with --repeats 30, or compare fewer metrics and cells")
	flags.More = "raise --limit (5m0s)"
	require.ErrorContains(t, flags.verdictOf(r, false),
		"; raise --limit (5m0s), or compare fewer metrics and cells")
}
