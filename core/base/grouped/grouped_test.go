package grouped

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBy(t *testing.T) {
	last := func(n int) int { return n % 10 }
	require.Equal(t, [][]int{{12, 2, 22}, {1, 31}, {7}}, By([]int{12, 1, 2, 7, 31, 22}, last))
	require.Empty(t, By(nil, last))
}
