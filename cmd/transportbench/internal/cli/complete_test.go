package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompletion(t *testing.T) {
	for line, want := range map[string][]string{
		"run --idle @":                         {"auto", "park"},
		"run --topology @":                     {"mesh-proxied"},
		"run --transport @":                    {"fake", "other"},
		"run --transport fake --set @":         {"ring="},
		"run --transport fake --set ring=@":    {"ring=lamport", "ring=onesided"},
		"micro fake @":                         {"setup"},
		"micro fake --set @":                   {"ring="},
		"sweep @":                              {"standard"},
		"sweep --profile @":                    {"pingpong"},
		"reproduce @":                          {"kvstore", "shm"},
		"diff --metric @":                      {"all", "latency_p50"},
		"diff --metric throughput,@":           {"throughput,latency_p50"},
		"history --metric @":                   {"latency_p50"},
		"history --metric throughput,@":        {"throughput,latency_p50"},
		"history @":                            {":16"}, // directories
		"history results @":                    {":16"},
		"bless @":                              {":16"},
		"bless results @":                      {":4"}, // nothing
		"bless results --metric @":             {"latency_p50"},
		"diff --along @":                       {"transport", "in-flight"},
		"diff " + committedSet + " --along @":  {"transport", "in_flight"},
		"analyze @":                            {"json", ":8"}, // directories and files that end so
		"report " + committedSet + " @":        {"json", ":8"},
		"run --transport other,fake --set ri@": {"ring="},
	} {
		c := &command{T: t}
		args := append([]string{"__complete"}, strings.Fields(line)...)
		begun := args[len(args)-1]
		args[len(args)-1] = strings.TrimSuffix(begun, "@")
		args = append(args[:2], append([]string{"--plugin-dir", pluginDir(t, "fake", "other")},
			args[2:]...)...)
		require.Zero(t, c.execute(args...), c.stderr)
		var got []string
		for one := range strings.Lines(c.stdout) {
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
	t.Setenv("TRANSPORTBENCH_PLUGIN_PATH", pluginDir(t, "fake"))
	c := &command{T: t}
	require.Zero(t, c.execute())
	require.Contains(t, c.stdout, "bin/transportbench bench ")
	require.NotContains(t, c.stdout, "make build")
	t.Setenv("TRANSPORTBENCH_PLUGIN_PATH", t.TempDir())
	require.Zero(t, c.execute())
	require.Contains(t, c.stdout,
		"There are no transports yet. Build them first:\n\n  make build\n")
}

func TestNearMissOfAnOwnOption(t *testing.T) {
	c := &command{T: t}
	require.Equal(t, ExitUsage, c.execute("run", "--rng", "3"))
	require.Contains(t, c.stderr,
		`unknown flag --rng; did you mean "--set ring=...", an option of fake`)
}

// TestJSONWarnings checks that standard output is JSON and the failed checks are beside it.
func TestJSONWarnings(t *testing.T) {
	c := &command{T: t, run: distrust}
	require.Equal(t, ExitThreshold, c.execute("run", "--transport", "fake", "--json"))
	require.Contains(t, c.stderr, "error: verified: fake: 3 responses were wrong\n")
	require.Len(t, c.results(), 1)
	require.True(t, strings.HasPrefix(c.stdout, "{") && strings.HasSuffix(c.stdout, "}\n"),
		c.stdout)
}
