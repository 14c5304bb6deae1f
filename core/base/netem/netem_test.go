package netem

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNetwork(t *testing.T) {
	for text, canonical := range map[string]string{
		"none": "none", "loss=0%": "loss=0%", "delay=0s": "loss=0%",
		"rate=1000Mbit,loss=1.0%":                                   "loss=1%,rate=1Gbit",
		"reorder=0.1%,jitter=10us, delay=0.05ms,rate=1Gbit,loss=1%": example,
	} {
		var n Network
		require.NoError(t, n.Set(text), text)
		require.Equal(t, canonical, n.String())
		again := n
		require.NoError(t, again.Set(n.String()))
		require.Equal(t, n, again, "the canonical text is stable")
	}
	require.Equal(t, Impairments{Loss: 0.01, Delay: 50 * time.Microsecond,
		Jitter: 10 * time.Microsecond, Reorder: 0.001, Rate: 1e9},
		Network(example).Impairments())
	for text, problem := range map[string]string{
		"loss":                  `"loss" has no value`,
		"loss=1":                "is not a percentage such as 1%",
		"loss=NaN%":             "is not a percentage",
		"loss=91%":              "out of range (0% to 90%)",
		"los=1%":                `did you mean "loss"?`,
		"loss=1%,loss=2%":       "given twice",
		"delay=50":              "is not a time such as 50us",
		"delay=2s":              "out of range (0s to 1s)",
		"delay=1ms,jitter=2ms":  "longer than the delay",
		"reorder=1%":            "no effect without a delay",
		"rate=1GB":              "is not a rate such as 1Gbit",
		"rate=1kbit":            "out of range (100kbit",
		"loss=1%,delay=1ms,foo": "has no value",
	} {
		require.ErrorContains(t, new(Network).Set(text), problem, text)
	}
}
