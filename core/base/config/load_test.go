package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoad(t *testing.T) {
	for _, test := range []struct {
		rate      Rate
		classes   string
		want      Load
		scheduled bool
	}{
		{0, "", LoadClosed, false}, {20e3, "", LoadOpen, true}, {RateMax, "", LoadCapacity, false},
		{0, "rpc:64B;bulk:1KiB", LoadClasses, false},
		{0, "rpc:64B,rate=1000;bulk:1KiB", LoadClasses, true},
	} {
		c := Default()
		c.Rate = test.rate
		if test.classes != "" {
			require.NoError(t, c.Classes.Set(test.classes))
		}
		require.Equal(t, test.want, c.Load())
		require.Equal(t, test.scheduled, c.Scheduled())
	}
}
