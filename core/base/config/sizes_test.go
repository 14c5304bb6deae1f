package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		text     string
		min, max int
		mean     float64
		json     string
	}{
		{"0", 0, 0, 0, "0"},
		{"4KiB", 4096, 4096, 4096, "4096"},
		{"uniform:64-4KiB", 64, 4096, 2080, `"uniform:64-4KiB"`},
		{"uniform:0-1", 0, 1, 0.5, `"uniform:0-1"`},
		{"histogram:64=3,1KiB=1", 64, 1024, 304, `"histogram:64=3,1KiB=1"`},
	} {
		var s Sizes
		require.NoError(t, s.Set(c.text))
		require.Equal(t, c.text, s.String())
		require.Equal(t, c.min, s.Min())
		require.Equal(t, c.max, s.Max())
		require.Equal(t, c.min == c.max, s.Fixed())
		require.InDelta(t, c.mean, s.Mean(), 1e-9)
		text, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, c.json, string(text))
		var back Sizes
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, s, back)
	}
	// Equal distributions are equal values.
	for text, want := range map[string]string{
		"uniform:8-8": "8", "histogram:32=5": "32", "histogram:64=0,32=1": "32",
		"histogram:64=1,32=2,64=1": "histogram:32=2,64=2",
	} {
		var s Sizes
		require.NoError(t, s.Set(text))
		require.Equal(t, want, s.String())
	}
}

func TestSizesRefuse(t *testing.T) {
	for _, text := range []string{
		"", "big", "-1", "uniform:", "uniform:5", "uniform:9-5", "uniform:-1-5", "uniform:1-x",
		"histogram:", "histogram:64",
		"histogram:64=x", "histogram:x=1", "histogram:64=-1", "histogram:64=NaN",
		"histogram:64=Inf", "histogram:64=0",
		"histogram:64=1e308,65=1e308", "file:sizes.txt",
	} {
		var s Sizes
		err := s.Set(text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "\n")
	}
	for _, text := range []string{`true`, `1.5`, `"x"`, `{}`} {
		require.Error(t, json.Unmarshal([]byte(text), new(Sizes)), text)
	}
}

func TestReadHistogram(t *testing.T) {
	s, err := ReadHistogram(strings.NewReader(
		"# from a trace\n\n 64   9 # small\n4KiB\t1\n1000 0\n"))
	require.NoError(t, err)
	require.Equal(t, "histogram:64=9,4KiB=1", s.String())

	var tooMany strings.Builder
	for i := range MaxSizeWeights + 1 {
		fmt.Fprintln(&tooMany, i, 1)
	}
	for text, problem := range map[string]string{
		"":                        "has no size",
		"64 9\n65\n":              `line 2: "65" is not a size and a weight`,
		"64 9 8\n":                "line 1",
		"\n#\n64 many\n":          `line 3: "many" is not a weight`,
		"64kb 1\n":                `line 1: "64kb" is not a size`,
		"64 -1":                   "line 1",
		"64 NaN":                  "line 1",
		strings.Repeat("x", 1000): "...",
		tooMany.String():          "different sizes",
		strings.Repeat("1 1\n", MaxHistogramFile/4+1): "longer than 1MiB",
		"\x00\x01\xff": "line 1",
	} {
		_, err := ReadHistogram(strings.NewReader(text))
		require.ErrorContains(t, err, problem)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestHistogramsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) SizeWeight {
			return SizeWeight{Size(rapid.Int64Range(0, MaxValueSize).Draw(t, "size")),
				rapid.Float64Range(1e-9, 1e9).Draw(t, "weight")}
		}), 1, 50).Draw(t, "weights")
		s, err := HistogramSizes(weights)
		require.NoError(t, err)
		var back Sizes
		require.NoError(t, back.Set(s.String()))
		require.Equal(t, s, back)
		require.GreaterOrEqual(t, s.Mean(), float64(s.Min())*(1-1e-9))
		require.LessOrEqual(t, s.Mean(), float64(s.Max())*(1+1e-9))
	})
}

// FuzzReadHistogram checks that any file is a histogram that String and Set preserve, or an error
// of one line.
func FuzzReadHistogram(f *testing.F) {
	f.Add("64 9\n4KiB 1 # rare\n")
	f.Add("64 1e308\n65 1e308\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadHistogram(strings.NewReader(text))
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		var back Sizes
		require.NoError(t, back.Set(s.String()))
		require.Equal(t, s, back)
	})
}
