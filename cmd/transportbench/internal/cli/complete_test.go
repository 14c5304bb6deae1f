package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
)

func TestCompletion(t *testing.T) {
	for line, want := range map[string][]string{
		"run --idle @":                                {"auto", "park"},
		"run --topology @":                            {"mesh-proxied"},
		"run --transport @":                           {"fake", "other"},
		"run --transport fake --set @":                {"ring="},
		"run --transport fake --set ring=@":           {"ring=lamport", "ring=onesided"},
		"micro fake @":                                {"setup"},
		"micro fake --set @":                          {"ring="},
		"sweep @":                                     {"standard"},
		"sweep --profile @":                           {"pingpong"},
		"reproduce @":                                 {"kvstore", "shm"},
		"diff --metric @":                             {"latency_p50"},
		"diff --metric throughput,@":                  {"throughput,latency_p50"},
		"history --metric @":                          {"latency_p50"},
		"history --metric throughput,@":               {"throughput,latency_p50"},
		"history @":                                   {":16"}, // directories
		"history results @":                           {":16"},
		"bless @":                                     {":16"},
		"bless results --metric @":                    {"latency_p50"},
		"diff --along @":                              {"transport", "in-flight"},
		"diff " + clitest.CommittedSet + " --along @": {"transport", "in_flight"},
		// directories and files that end so
		"analyze @":                             {"json", ":8"},
		"report " + clitest.CommittedSet + " @": {"json", ":8"},
		"run --transport other,fake --set ri@":  {"ring="},
	} {
		c := &clitest.Command{T: t}
		args := append([]string{"__complete"}, strings.Fields(line)...)
		begun := args[len(args)-1]
		args[len(args)-1] = strings.TrimSuffix(begun, "@")
		args = append(args[:2],
			append([]string{"--plugin-dir", clitest.PluginDir(t, "fake", "other")}, args[2:]...)...)
		require.Zero(t, c.Execute(args...), c.Stderr)
		var got []string
		for one := range strings.Lines(c.Stdout) {
			name, _, _ := strings.Cut(strings.TrimSpace(one), "\t")
			got = append(got, name)
		}
		for _, name := range want {
			require.Contains(t, got, name, line)
		}
	}
}

// TestBareCommand checks what the command says to somebody who types only its name.
func TestBareCommand(t *testing.T) {
	t.Setenv("TRANSPORTBENCH_PLUGIN_PATH", clitest.PluginDir(t, "fake"))
	c := &clitest.Command{T: t}
	require.Zero(t, c.Execute())
	require.Contains(t, c.Stdout, "bin/transportbench bench ")
	require.NotContains(t, c.Stdout, "make build")
	t.Setenv("TRANSPORTBENCH_PLUGIN_PATH", t.TempDir())
	require.Zero(t, c.Execute())
	require.Contains(t, c.Stdout,
		"There are no transports yet. Build them first:\n\n  make build\n")
}

func TestNearMissOfAnOwnOption(t *testing.T) {
	c := &clitest.Command{T: t}
	require.Equal(t, app.ExitUsage, c.Execute("run", "--rng", "3"))
	require.Contains(t, c.Stderr,
		`unknown flag --rng; did you mean "--set ring=...", an option of fake`)
}

// TestJSONWarnings checks that standard output is JSON and the failed checks are beside it.
func TestJSONWarnings(t *testing.T) {
	c := &clitest.Command{T: t, Run: clitest.Distrust}
	require.Equal(t, app.ExitThreshold, c.Execute("run", "--transport", "fake", "--json"))
	require.Contains(t, c.Stderr, "error: verified: fake: 3 responses were wrong\n")
	require.Len(t, c.Results(), 1)
	require.True(t, strings.HasPrefix(c.Stdout, "{") && strings.HasSuffix(c.Stdout, "}\n"),
		c.Stdout)
}
