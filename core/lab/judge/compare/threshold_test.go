package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/set"
)

func TestThresholds(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	old, new := newSet(cell(nil, noisy(r, 10, 1e6, 0.005)...)),
		newSet(cell(nil, noisy(r, 10, 0.96e6, 0.005)...))
	for text, broken := range map[string]bool{
		"throughput<-3%":                          true,
		"throughput < -5%":                        false,
		"throughput>+1%":                          false,
		"shm: throughput<-3%":                     true,
		"transport=s*,in-flight=1:throughput<-3%": true,
		"ring=auto: throughput<-3%":               true,
		"in_flight=2: throughput<-3%":             false,
		"nope=1: throughput<-3%":                  false,
		"throughput<980000":                       true,
		"throughput<9e5":                          false,
	} {
		threshold, err := ParseThreshold(text)
		require.NoError(t, err, text)
		o := Defaults()
		o.Thresholds = []Threshold{threshold}
		report, err := Diff(old, new, o)
		require.NoError(t, err)
		require.Equal(t, broken, len(report.Broken) > 0, text)
	}
	// Noise breaks no threshold.
	threshold, err := ParseThreshold("throughput<-3%")
	require.NoError(t, err)
	o := Defaults()
	o.Thresholds = []Threshold{threshold}
	report, err := Diff(newSet(cell(nil, 1, 2, 3, 4)), newSet(cell(nil, 0.9, 1.8, 2.7, 3.6)), o)
	require.NoError(t, err)
	require.Empty(t, report.Broken)

	for text, want := range map[string]string{
		"throughput": "not a threshold", "throughput<": "not a threshold",
		"throughput<1e999%": "not a number",
		"thruput<-3%":       `did you mean "throughput"`, "[: throughput<1%": "pattern",
	} {
		_, err := ParseThreshold(text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseThreshold(f *testing.F) {
	f.Add("shm: throughput<-3%")
	f.Fuzz(func(t *testing.T, text string) {
		threshold, err := ParseThreshold(text)
		if err == nil {
			require.False(t, math.IsNaN(threshold.Limit))
			set.Match(threshold.Pattern, map[string]string{"transport": "shm"})
		}
	})
}
