package loop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSampler(t *testing.T) {
	for _, every := range []int{1, 2, 7, 64, 1000} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			s := NewSampler(every, 42)
			const ops = 2_000_000
			taken := 0
			for range ops {
				if s.Take() {
					taken++
				}
			}
			require.InEpsilon(t, float64(ops)/float64(every), float64(taken), 0.05)
		})
	}
	require.Equal(t, 1, SampleEveryFor(10, 1000))
	require.Equal(t, 32, SampleEveryFor(30, 100))
	require.LessOrEqual(t, 30/float64(SampleEveryFor(30, 30)), 30*stampBudget)
}
