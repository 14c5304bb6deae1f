package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProfilesSetOptionsThatExist(t *testing.T) {
	options := map[string]bool{}
	for field := range reflect.TypeFor[Config]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		options[name] = true
	}
	seen := map[string]bool{}
	for _, p := range Profiles() {
		require.NotEmpty(t, p.Summary)
		require.NotContains(t, p.Summary, "\n")
		require.False(t, seen[p.Name], "%s occurs twice", p.Name)
		seen[p.Name] = true
		for option := range p.Set {
			require.Contains(t, options, strings.ReplaceAll(option, "-", "_"), p.Name)
			require.NotEqual(t, "profile", option, "a profile does not choose a profile")
		}
	}
}

func TestProfileByName(t *testing.T) {
	p, err := ProfileByName("pingpong")
	require.NoError(t, err)
	require.Equal(t, "1", p.Set["read-ratio"])

	_, err = ProfileByName("pingpng")
	var option *Error
	require.ErrorAs(t, err, &option)
	require.Equal(t, "profile", option.Option)
	require.ErrorContains(t, err, `did you mean "pingpong"?`)

	_, err = ProfileByName(Default().Profile)
	require.NoError(t, err, "the default profile exists")
}

func TestProfilesBelongToTheCaller(t *testing.T) {
	Profiles()[0].Set["value-size"] = "changed"
	again, err := ProfileByName(Profiles()[0].Name)
	require.NoError(t, err)
	require.Equal(t, "32", again.Set["value-size"])
}
