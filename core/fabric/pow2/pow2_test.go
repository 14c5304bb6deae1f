package pow2

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCeil(t *testing.T) {
	for n, want := range map[int]int{-1: 1, 0: 1, 1: 1, 2: 2, 3: 4, 4: 4, 5: 8,
		1<<20 + 1: 1 << 21} {
		require.Equal(t, want, Ceil(n), "%d", n)
		require.Equal(t, n > 0 && want == n, Is(n), "%d", n)
	}
}
