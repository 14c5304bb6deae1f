package transport

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var testSchema = []Option{
	{Name: "ring", Type: TypeString, Default: "lamport", Allowed: []string{"lamport", "onesided"}},
	{Name: "slots", Type: TypeInt, Default: "64", Min: 4, Max: 1024},
	{Name: "arena", Type: TypeSize, Default: "1MiB", Min: 1, Max: 1 << 30},
	{Name: "rto", Type: TypeDuration, Default: "5ms"},
	{Name: "inline", Type: TypeBool, Default: "true"},
	{Name: "device", Type: TypeString, Default: ""},
}

func TestParseOptions(t *testing.T) {
	v, err := ParseOptions(testSchema, map[string]string{"slots": "8", "arena": "4KiB",
		"inline": "false", "device": "mlx5_0"})
	require.NoError(t, err)
	require.Equal(t, "lamport", v.String("ring"))
	require.Equal(t, 8, v.Int("slots"))
	require.Equal(t, 4096, v.Size("arena"))
	require.Equal(t, 5*time.Millisecond, v.Duration("rto"))
	require.False(t, v.Bool("inline"))
	require.Equal(t, "mlx5_0", v.String("device"))
	require.Equal(t, map[string]string{
		"ring": "lamport", "slots": "8", "arena": "4KiB", "rto": "5ms", "inline": "false",
		"device": "mlx5_0",
	}, v.Map())
	require.Panics(t, func() { v.Int("ring") })
	require.Panics(t, func() { v.Bool("no-such") })
}

func TestParseOptionsRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		raw     map[string]string
		option  string
		problem string
	}{
		"unknown": {map[string]string{"rnig": "x"}, "rnig", "unknown"},
		"not allowed": {map[string]string{"ring": "onesded"}, "ring",
			`"onesded" is not one of lamport, onesided`},
		"not an int": {map[string]string{"slots": "many"}, "slots",
			`"many" is not a whole number`},
		"too small": {map[string]string{"slots": "1"}, "slots", "1 is out of range (4 to 1024)"},
		"too large": {map[string]string{"arena": "2GiB"}, "arena",
			"2GiB is out of range (1 to 1GiB)"},
		"no unit": {map[string]string{"rto": "5"}, "rto",
			`"5" is not a duration such as 500ms or 1.5s`},
		"not a bool": {map[string]string{"inline": "maybe"}, "inline",
			`"maybe" is not true or false`},
	} {
		_, err := ParseOptions(testSchema, c.raw)
		var wrong *OptionError
		require.ErrorAs(t, err, &wrong, name)
		require.Equal(t, OptionError{c.option, c.problem}, *wrong)
	}
}

func TestOpErrorWraps(t *testing.T) {
	err := error(NewOpError("shm", "open", Unavailable("no %s", "device")))
	require.ErrorIs(t, err, ErrUnavailable)
	require.EqualError(t, err, "shm: open: unavailable: no device")
	require.EqualError(t, &OpError{Transport: "shm", Op: "post", Peer: 3, Err: ErrPeerDown},
		"shm: post peer 3: peer is down")
	cause := errors.New("cause")
	require.ErrorIs(t, Unavailable("because: %w", cause), cause)
}

// FuzzParseSize: what is written can be read back.
func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"0", "4096", "4KiB", "1 MiB", "9223372036854775807", "-1", "B",
		"8EiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseSize(text)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, n, int64(0))
		again, err := ParseSize(FormatSize(n))
		require.NoError(t, err)
		require.Equal(t, n, again)
	})
}
