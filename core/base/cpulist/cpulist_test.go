package cpulist

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFormatAndParse(t *testing.T) {
	for _, test := range []struct {
		cpus []int
		want string
	}{{nil, ""}, {[]int{0}, "0"}, {[]int{0, 1}, "0-1"},
		{[]int{0, 1, 2, 8, 10, 11}, "0-2,8,10-11"}} {
		require.Equal(t, test.want, Format(test.cpus))
	}
	for _, bad := range []string{",", "1,", "a", "3-1", "1,1", "2,1", "-1", "0-", "0-99999999",
		"0-16384"} {
		_, err := Parse(bad)
		require.Error(t, err, "%q", bad)
	}
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.SliceOfNDistinct(rapid.IntRange(0, Max-1), 0, 40, rapid.ID[int]).Draw(
			t, "cpus")
		slices.Sort(cpus)
		back, err := Parse(Format(cpus))
		require.NoError(t, err)
		require.True(t, slices.Equal(cpus, back), "%v", back)
	})
}

func FuzzParse(f *testing.F) {
	f.Add("0-3,8")
	f.Add("0-16383")
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := Parse(text)
		if err != nil {
			return
		}
		require.True(t, slices.IsSorted(cpus))
		again, err := Parse(Format(cpus))
		require.NoError(t, err)
		require.Equal(t, cpus, again)
	})
}
