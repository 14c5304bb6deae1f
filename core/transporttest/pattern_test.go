package transporttest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPatternShowsAnyDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(minChecked, 2000).Draw(t, "size")
		p := pattern(rapid.Uint64().Draw(t, "seed"), size)
		require.NoError(t, checkPattern(p))

		damaged := slices.Clone(p)
		at := rapid.IntRange(0, size-1).Draw(t, "at")
		damaged[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		require.Error(t, checkPattern(damaged), "byte %d changed", at)
		require.Error(t, checkPattern(p[:size-1]), "the last byte cut off")
	})
}
