package check

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValuesAreJSON(t *testing.T) {
	require.Equal(t, math.MaxFloat64, representable(math.NaN()))
	require.Equal(t, math.MaxFloat64, representable(math.Inf(-1)))
	require.Equal(t, 2.5, representable(2.5))
}
