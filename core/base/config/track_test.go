package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

func TestTrackOptions(t *testing.T) {
	info := transport.Info{Matched: map[string]string{"checksum": "header"}}
	own := map[string]string{"batch": "4"}
	got, err := TrackShipped.OwnOptions(info, own)
	require.NoError(t, err)
	require.Equal(t, own, got)
	got, err = TrackMatched.OwnOptions(info, own)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"batch": "4", "checksum": "header"}, got)
	require.Equal(t, map[string]string{"batch": "4"}, own, "the argument")
	_, err = TrackMatched.OwnOptions(info, map[string]string{"checksum": "all"})
	var wrong *transport.OptionError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "checksum", wrong.Option)

	// A transport that checks nothing has nothing to set.
	got, err = TrackMatched.OwnOptions(transport.Info{}, own)
	require.NoError(t, err)
	require.Equal(t, own, got)
}

func TestTrackIsAbsentWhenShipped(t *testing.T) {
	c := Default()
	require.NoError(t, c.Validate())
	require.Equal(t, "shipped", c.Track.String())
	c.Track = "other"
	require.ErrorContains(t, c.Validate(), "--track")
}
