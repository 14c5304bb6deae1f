package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/pow2"
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

// TestReplayStore: the store for a trace of many keys takes at most replayStore. Its table has
// twice as many entries as keys, rounded up to a power of two, each with room for the largest
// value. Pages that no value reaches take no memory.
func TestReplayStore(t *testing.T) {
	for _, largest := range []int{0, 32, 500, 1063, 4000, 1 << 20} {
		const mean, keys = 500, 1 << 22
		trace := func(*Config) (*Replay, error) {
			return &Replay{Digest: "0123456789abcdef", Length: time.Second, Keys: keys,
				ReplayPart: ReplayPart{Operations: 5000}, Mix: Mix{{Op: OpRead, Share: 1}},
				ValueSize: FixedSize(Size(largest)), WorkingSet: keys * min(mean, uint64(largest)),
			}, nil
		}
		c, _, err := Resolve(Layer{Values: map[string]string{"replay": "trace.csv"}, Trace: trace})
		require.NoError(t, err)
		room := (c.LargestMessage() + 16 + storeLine - 1) / storeLine * storeLine
		memory := min(pow2.Ceil(2*c.Keys)*room, c.Keys*(mean+storePage))
		require.LessOrEqual(t, memory, replayStore, "values of %d bytes", largest)
		require.Greater(t, memory, replayStore/8, "values of %d bytes", largest)
	}
}
