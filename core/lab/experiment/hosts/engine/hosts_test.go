package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHosts(t *testing.T) {
	hosts, err := ParseHosts("a, root@b,10.0.0.1")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "root@b", "10.0.0.1"}, hosts)
	hosts, options, err := ReadHostfile("# two\n\na slots=2 # first\n  b device=mlx5_2 slots=1\n")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, hosts)
	require.Equal(t, [][]string{{}, {"device=mlx5_2"}}, options)
	for list, problem := range map[string]string{
		"":                 `"" is no host`,
		"a,":               `"" is no host`,
		"-oProxyCommand=x": `"-oProxyCommand=x" is no host`,
		"a b":              `"a b" is no host`,
		"a,b,a":            `"a" is there twice; each host has one agent, and --ranks-per-host says how many ranks`,
	} {
		_, err := ParseHosts(list)
		require.EqualError(t, err, problem)
	}
	_, _, err = ReadHostfile("# none\n")
	require.EqualError(t, err, "it has no hosts; write one in each line")
}
