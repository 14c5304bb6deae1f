package set

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/result"
)

// The options of every committed set as text are those of its typed configurations.
func TestRunsOfCommittedSets(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"*/*", "*/*/*"} {
		found, err := filepath.Glob("../../../../results/v" + pattern + "/" + IndexName + "*")
		require.NoError(t, err)
		paths = append(paths, found...)
	}
	require.Greater(t, len(paths), 5)
	for _, path := range paths {
		s, err := Load(path)
		require.NoError(t, err)
		for i := range s.Cells {
			c := &s.Cells[i]
			require.NotNil(t, c.Run, path)
			flat, err := Flatten(c.Run)
			require.NoError(t, err)
			for name, text := range c.Config {
				if name != "rate" || c.Capacity == nil { // else it is a share
					require.Equal(t, text, flat[name], "%s: %s", path, name)
				}
			}
		}
	}
}

// What [ParseOptions] reads is what [Flatten] wrote, for options of every type.
func TestParseOptionsIsTheInverseOfFlatten(t *testing.T) {
	c := config.Default()
	c.Options = map[string]string{"ring": "auto"}
	for _, set := range []error{
		c.Classes.Set("rpc:64B,clients=2,rate=1000;bulk:1KiB"), c.Traffic.Set("fan-out"),
		c.Servers.Set("3"), c.ValueSize.Set("uniform:64-4096"),
		c.Mix.Set("read:1,write:1"), c.Pattern.Set("lookup:1,read:2"),
		c.CPUs.Set("daemons=0,clients=1-3"), c.Rate.Set("20k"),
	} {
		require.NoError(t, set)
	}
	c.Track = config.TrackMatched
	c.Network, c.ReadDelay, c.Burn = "loss=1%", "10us", config.Duration(1000)
	text, err := Flatten(c)
	require.NoError(t, err)
	parsed := config.Default()
	require.NoError(t, ParseOptions(&parsed, text, nil))
	require.Equal(t, c, parsed)

	c = config.Default()
	c.RemoteShare = 0 // which is left out
	mesh, err := Flatten(c)
	require.NoError(t, err)
	require.NotContains(t, mesh, "remote_share")
	require.Equal(t, &c, runOf(mesh, nil))

	text["rate"] = "70%"
	require.ErrorContains(t, ParseOptions(&parsed, text, nil), `rate: "70%"`)
	require.NoError(t, ParseOptions(&parsed, text, &result.Capacity{Share: 0.7, Rate: 5}))
	require.InDelta(t, 5, float64(parsed.Rate), 0)
}

// An option that is zero is shown and matched as users write it, although results leave it out.
func TestOptionsThatAreZero(t *testing.T) {
	c := config.Default()
	c.Burn, c.ReadDelay, c.ValueSize = config.Duration(10_000), "10us", config.FixedSize(4096)
	changed, unchanged := Cell{Run: &c}, Cell{Run: new(config.Default())}
	for _, cell := range []*Cell{&changed, &unchanged} {
		require.NoError(t, cell.flatten())
		for _, f := range config.Fields() {
			shown, has := cell.Shown(strings.ReplaceAll(f.Name, "-", "_"))
			require.True(t, has && shown != "", f.Name)
			require.True(t, Match(f.Name+"="+f.Show(cell.Run), cell.Config), f.Name)
		}
	}
	for _, pattern := range []string{"burn=10us", "burn=0.01ms", "read-delay=10us",
		"value_size=4KiB", "value-size=4096", "track=shipped", "burn=1*"} {
		require.True(t, Match(pattern, changed.Config), pattern)
	}
	for _, pattern := range []string{"burn=0s", "burn=0", "read-delay=none", "track=shipped"} {
		require.True(t, Match(pattern, unchanged.Config), pattern)
	}
	require.False(t, Match("burn=10us", unchanged.Config))
	require.False(t, Match("burn=0s", changed.Config))
	require.False(t, Match("burn=0s", map[string]string{"transport": "shm"}),
		"a published figure does not say")
	require.Equal(t, "10us", first(changed.Shown("burn")))
}

func first(text string, _ bool) string { return text }
