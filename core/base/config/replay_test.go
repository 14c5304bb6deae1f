package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSpeed checks the rate and the length that follow from the speed of a replay.
func TestSpeed(t *testing.T) {
	length := 10 * time.Second
	trace := func(*Config) (*Replay, error) {
		return &Replay{Digest: "0123456789abcdef", Length: length, Keys: 10,
			ReplayPart: ReplayPart{Operations: 5000}, ValueSize: FixedSize(32), WorkingSet: 320,
			Mix: Mix{{Op: OpRead, Share: 1}}}, nil
	}
	resolve := func(set map[string]string) (Config, error) {
		set["replay"] = "trace.csv"
		c, _, err := Resolve(Layer{Values: set, Trace: trace})
		return c, err
	}
	c, err := resolve(map[string]string{"speed": "4"})
	require.NoError(t, err)
	require.Equal(t, Rate(2000), c.Rate)
	require.Equal(t, Duration(2500*time.Millisecond), c.Duration)
	c.SetRate(1000)
	require.Equal(t, Speed(2), c.Speed)
	require.Equal(t, Rate(1000), c.Rate)
	require.Equal(t, Duration(5*time.Second), c.Duration)

	c, err = resolve(map[string]string{"speed": "max", "duration": "300ms"})
	require.NoError(t, err)
	require.Equal(t, "max", c.Speed.String())
	require.Equal(t, LoadCapacity, c.Load())
	require.Equal(t, Duration(300*time.Millisecond), c.Duration)

	_, err = resolve(map[string]string{"duration": "300ms"})
	require.ErrorContains(t, err, "a trace has its own")
	_, err = resolve(map[string]string{"speed": "50%"})
	require.ErrorContains(t, err, "which only a sweep measures")

	length = 0
	_, err = resolve(map[string]string{"speed": "4"})
	require.ErrorContains(t, err, "all requests have one time")
	c, err = resolve(map[string]string{"closed": "true"})
	require.NoError(t, err)
	require.Zero(t, c.Rate)
}
