package options

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

// TestWrittenProfilesAreReadBack: as they are, and with all comments taken away.
func TestWrittenProfilesAreReadBack(t *testing.T) {
	for _, built := range config.Profiles() {
		t.Run(built.Name, func(t *testing.T) {
			p, err := FindProfile(built.Name)
			require.NoError(t, err)
			want, err := ProfileConfig(p)
			require.NoError(t, err)
			var text bytes.Buffer
			require.NoError(t, WriteProfile(&text, p))

			path := write(t, "own.yaml", text.String())
			own, err := FindProfile(path)
			require.NoError(t, err)
			require.ElementsMatch(t, slices.Collect(maps.Keys(p.Set)),
				slices.Collect(maps.Keys(own.Set)))
			s, err := resolve(t, given{args: []string{"--profile", path}})
			require.NoError(t, err)
			want.Profile = "own.yaml"
			require.Equal(t, want, s.Config)

			everything := ""
			for line := range strings.Lines(text.String()) {
				if key, _, found := strings.Cut(strings.TrimPrefix(line, "# "), ": "); found &&
					config.IsOption(key) {
					everything += strings.TrimPrefix(line, "# ")
				}
			}
			s, err = resolve(t,
				given{args: []string{"--profile", write(t, "own.yaml", everything)}})
			require.NoError(t, err)
			require.Equal(t, want, s.Config)
		})
	}
}

func TestYAMLScalars(t *testing.T) {
	for text, want := range map[string]string{
		"0.5": "0.5", "4KiB": "4KiB", "loop": "loop", "1.5s": "1.5s", "": `""`,
		"read:0.5": `"read:0.5"`, "a b": `"a b"`, "-1": `"-1"`,
	} {
		require.Equal(t, want, yamlScalar(text))
	}
}

func TestProfileFilePrecedence(t *testing.T) {
	path := write(t, "own.yaml", "clients: 3\nin-flight: 4\nkeys: 50\n")
	s, err := resolve(t, given{args: []string{"--profile", path, "--clients=7"},
		file: "in-flight: 9\n"})
	require.NoError(t, err)
	require.Equal(t, []int{7, 9, 50}, []int{s.Config.Clients, s.Config.InFlight, s.Config.Keys})
	require.Equal(t, config.Default().ReadRatio, s.Config.ReadRatio)
}
