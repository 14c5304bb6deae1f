package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.Zero(t, Median(nil))
	require.Equal(t, 3.0, Median([]float64{3}))
	require.Equal(t, 2.5, Median([]float64{4, 1, 2, 3}))
	values := []float64{9, 1, 5}
	require.Equal(t, 5.0, Median(values))
	require.Equal(t, []float64{9, 1, 5}, values, "they stay in order")
}
