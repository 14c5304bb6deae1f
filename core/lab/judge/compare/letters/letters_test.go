package letters

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLetters(t *testing.T) {
	display := func(n int, pairs ...[2]int) []string {
		apart := make([][]bool, n)
		for i := range apart {
			apart[i] = make([]bool, n)
		}
		for _, p := range pairs {
			apart[p[0]][p[1]], apart[p[1]][p[0]] = true, true
		}
		return Of(apart)
	}
	require.Equal(t, []string{"a", "a", "a"}, display(3))
	require.Equal(t, []string{"a", "ab", "b"}, display(3, [2]int{0, 2}))
	require.Equal(t, []string{"a", "b", "b"}, display(3, [2]int{0, 1}, [2]int{0, 2}))
	require.Equal(t, []string{"a", "b", "c"}, display(3, [2]int{0, 1}, [2]int{0, 2}, [2]int{1, 2}))
	require.Equal(t, []string{"ab", "a", "b"}, display(3, [2]int{1, 2}), "intransitive")
	require.Equal(t, []string{"a", "ab", "abc", "bcd", "cd", "d"},
		display(6, [2]int{0, 3}, [2]int{0, 4}, [2]int{0, 5}, [2]int{1, 4}, [2]int{1, 5},
			[2]int{2, 5}))
	// A group whose pairs are all in others has no letter.
	require.Equal(t, []string{"ab", "ac", "bc", "a", "c", "b"},
		display(6, [2]int{2, 3}, [2]int{3, 4}, [2]int{3, 5}, [2]int{0, 4}, [2]int{4, 5},
			[2]int{1, 5}))
	// Two values have a letter in common unless they are told apart, no group is within another,
	// and no letter can be left out.
	r := rand.New(rand.NewPCG(24, 1))
	for range 200 {
		n := 2 + r.IntN(8)
		var pairs [][2]int
		told := map[[2]int]bool{}
		for better, worse := range Pairs(n) {
			if r.IntN(2) == 0 {
				pairs, told[[2]int{better, worse}] = append(pairs, [2]int{better, worse}), true
			}
		}
		texts := display(n, pairs...)
		for better, worse := range Pairs(n) {
			require.NotEqual(t, told[[2]int{better, worse}],
				slices.ContainsFunc([]rune(texts[better]),
					func(l rune) bool { return slices.Contains([]rune(texts[worse]), l) }), "%v %v",
				texts, pairs)
		}
		require.Contains(t, texts[0], "a")
		groups := map[rune][]int{}
		pairsOf := map[[2]int]int{} // how many groups have both, or the value twice
		for value, text := range texts {
			for _, l := range text {
				groups[l] = append(groups[l], value)
			}
		}
		inGroup := func(group []int, do func(pair [2]int)) {
			for at, i := range group {
				for _, j := range group[at:] {
					do([2]int{i, j})
				}
			}
		}
		for _, group := range groups {
			inGroup(group, func(pair [2]int) { pairsOf[pair]++ })
		}
		for l, group := range groups {
			for other, values := range groups {
				require.False(t, l != other &&
					!slices.ContainsFunc(group,
						func(v int) bool { return !slices.Contains(values, v) }),
					"%v %v: group %c is within %c", texts, pairs, l, other)
			}
			needed := false
			inGroup(group, func(pair [2]int) { needed = needed || pairsOf[pair] == 1 })
			require.True(t, needed, "%v %v: letter %c can be left out", texts, pairs, l)
		}
	}
	require.Equal(t, "b'", letter(27))
}
