package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// TestTracksMeasureOnce checks that a sweep measures a cell on the track matched only if it differs
// from the one on the track shipped: if the transport has checks of its own, or the profile does
// not verify every value.
func TestTracksMeasureOnce(t *testing.T) {
	described := func(info transport.Info) *experiment.Plugin {
		return &experiment.Plugin{Identity: result.Plugin{Name: info.Name}, Info: info}
	}
	m := experiment.Plugins{
		"plain": described(transport.Info{Name: "plain"}),
		"checks": described(transport.Info{
			Name: "checks", Matched: map[string]string{"checksum": "header"},
			Options: []transport.Option{{Name: "checksum", Type: transport.TypeString,
				Default: "all", Allowed: []string{"all", "header"}}},
		}),
	}
	spec, err := experiment.ParseSpec("matrix.yaml", []byte(`
repeats: 1
base: {transport: all}
axes:
  load:
    - {profile: kv}
    - {profile: kv, track: matched}
    - {profile: echo}
    - {profile: echo, track: matched}
`))
	require.NoError(t, err)
	plan, err := experiment.Expand(spec, m)
	require.NoError(t, err)
	require.Empty(t, plan.Notes, "nothing is wrong with a file that asks for both tracks")
	var cells []string
	for _, c := range plan.Cells {
		cells = append(cells, c.Config.Transport+" "+c.Config.Profile+" "+c.Config.Track.String()+
			" "+c.Config.Options["checksum"])
		require.True(t, c.Config.Track == config.TrackShipped || c.Config.VerifyEvery == 1)
	}
	require.ElementsMatch(t, []string{
		"plain kv shipped ", "checks kv shipped all", "checks kv matched header",
		"plain echo shipped ", "checks echo shipped all", "plain echo matched ",
		"checks echo matched header",
	}, cells)

	_, _, err = m["checks"].Resolve([]config.Layer{{Values: map[string]string{"track": "matched"}}},
		map[string]string{"checksum": "all"})
	require.ErrorContains(t, err, `"all" contradicts --track matched`)
	_, err = experiment.Runs([]*experiment.Plugin{m["checks"]},
		config.Config{Track: config.TrackMatched}, map[string]string{"checksum": "all"})
	require.ErrorContains(t, err, `"all" contradicts --track matched`)
}
