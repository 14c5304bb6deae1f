package format

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

func TestRange(t *testing.T) {
	of := func(unit string, low, high float64) string {
		return Range(result.Metric{Unit: unit, Low: &low, High: &high})
	}
	require.Equal(t, "523 us to 1.66 ms", of("ns", 523e3, 1.66e6))
	require.Equal(t, "319 to 512 us", of("ns", 319e3, 512e3))
	require.Equal(t, "792 K op/s to 1.03 M op/s", of("op/s", 792e3, 1.033e6))
	require.Equal(t, "0.900 to 1.10", of("ratio", 0.9, 1.1))
	require.Equal(t, "-", Range(result.Metric{Unit: "ns"}))
}

func TestDigits(t *testing.T) {
	for value, text := range map[float64]string{
		0: "0", 1234: "1234", 123.4: "123", 12.34: "12.3", 1.234: "1.23", 0.12345: "0.123",
		0.0682: "0.0682", -0.0099996: "-0.0100", 0.00123456: "0.00123", 3.364e-7: "3.36e-07",
	} {
		require.Equal(t, text, Digits(value))
	}
}

func TestShare(t *testing.T) {
	for share, text := range map[float64]string{
		0: "0%", 0.02: "2%", 0.04958333333333333: "4.96%", 0.0999: "10%", 0.20306: "20.3%",
		1: "100%", -0.005: "-0.5%",
	} {
		require.Equal(t, text, Share(share))
	}
}
