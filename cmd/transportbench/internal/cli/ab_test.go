package cli

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
)

func TestAB(t *testing.T) {
	run := func(args ...string) *command {
		c := &command{T: t, out: filepath.Join(t.TempDir(), "made")}
		c.run = oneRepeat
		c.execute(append([]string{"ab", "--plugin-dir", pluginDir(t, "fake", "other", "stub"),
			"--out", c.out}, args...)...)
		return c
	}
	code := func(args ...string) (int, *command) {
		c := &command{T: t, out: filepath.Join(t.TempDir(), "made"), run: oneRepeat}
		return c.execute(
			append([]string{"ab", "--plugin-dir", pluginDir(t, "fake", "other", "stub"), "--out",
				c.out}, args...)...), c
	}
	c := run("--transport", "fake", "--a", "in-flight=2", "--b", "in-flight=1 ring=onesided")
	require.Contains(t, c.stdout, "fake in_flight=2 ring=lamport -> fake in_flight=1 ring=onesided")
	require.Regexp(t, `throughput +2.00 M op/s +1.00 M op/s +-50.0% .* WORSE`, c.stdout)
	require.Contains(t, c.stderr, "the interval is narrow enough after 10 repeats of each")
	results := c.results()
	require.Len(t, results, 2)
	require.Len(t, results[0].Repeats, 10)

	c = run("--transport", "fake", "--profile", "kvcache", "--a", "read-ratio=0", "--b",
		"read-ratio=1", "--repeats", "2", "--most", "2")
	loads := c.results()
	require.Len(t, loads, 2)
	for _, r := range loads {
		require.Empty(t, r.Config.Pattern)
	}
	require.NotEqual(t, loads[0].Config.ReadRatio, loads[1].Config.ReadRatio)

	for _, one := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"--a", "transport=fake in-flight=1", "--b", "transport=other in-flight=2"},
			ExitOK, ""},
		{[]string{"--transport", "fake", "--a", "in-flight=2", "--b", "in-flight=1"},
			ExitRegression, "WORSE"},
		{[]string{"--transport", "fake", "--a", "in-flight=2", "--b", "in-flight=1", "--fail-on",
			"throughput<-60%"}, ExitOK, ""},
		{[]string{"--transport", "fake", "--a", "", "--repeats", "2", "--most", "2"}, ExitTooLittle,
			"too few repeats"},
		{[]string{"--transport", "fake", "--a", "in-flight=2", "--in-flight", "2"}, ExitOK,
			"--b is not given: B is fake with the flags that apply to both sides, and the " +
				"defaults"},
		{[]string{"--transport", "fake", "--a", "", "--repeats", "2", "--most", "2"}, ExitTooLittle,
			"raise --most (2) for more, or --within (1%)"},
		{[]string{"--transport", "fake", "--a", "", "--limit", "1ns"}, ExitTooLittle,
			"the time is up after 1 repeat of each; raise --limit (1ns) for more, or " +
				"--within (1%)"},
		{[]string{"--transport", "fake", "--a", "", "--in-flight", "1,2"}, ExitUsage,
			"--in-flight: ab takes one value"},
		{[]string{"--transport", "fake", "--a", "in-flight"}, ExitUsage,
			"not of the form option=value"},
		{[]string{"--transport", "fake", "--a", "rnig=x"}, ExitUsage, `did you mean "ring"?`},
		{[]string{"--transport", "fake", "--a", "", "--within", "0"}, ExitUsage, "--within"},
		{[]string{"--transport", "stub", "--a", ""}, ExitInternal, "install libfake-dev"},
		{[]string{"--transport", "fake"}, ExitUsage, "needs --a or --b"},
		{[]string{"--transport", "all", "--a", ""}, ExitUsage, "one transport per side"},
	} {
		got, c := code(one.args...)
		require.Equal(t, one.code, got, "%v: %s", one.args, c.stderr)
		require.Contains(t, c.stderr, one.stderr)
	}

	old, new := pluginDir(t, "fake"), pluginDir(t, "other", "fake")
	for _, one := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"--transport", "fake", "--a", "plugin-dir=" + old, "--b", "plugin-dir=" + new},
			ExitOK, "B: fake 1.2.3, runtime "},
		{[]string{"--transport", "fake", "--a", "plugin-dir=" + old, "--b", "plugin-dir=" + new},
			ExitOK, "A and B have the same plugin"},
		{[]string{"--transport", "fake", "--b", "--plugin-dir=" + new + " in-flight=2"},
			ExitOK, new},
		{[]string{"--transport", "other", "--a", "plugin-dir=" + old, "--b", "plugin-dir=" + new},
			ExitUsage, `there is no plugin "other" in ` + old},
		{[]string{"--transport", "fake", "--a", "plugin-dir=/nonexistent"}, ExitUsage,
			`"/nonexistent" is not a directory`},
		{[]string{"--transport", "fake", "--a", "plugin-dir="}, ExitUsage, `"" is not a directory`},
		{[]string{"--transport", "all", "--a", "plugin-dir=" + new}, ExitUsage,
			"one transport per side"},
	} {
		got, c := code(one.args...)
		require.Equal(t, one.code, got, "%v: %s", one.args, c.stderr)
		require.Contains(t, c.stderr, one.stderr)
	}

	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	c = &command{T: t, ctx: ctx, run: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		if n++; n == 5 {
			cancel()
			return nil, ctx.Err()
		}
		return oneRepeat(ctx, req, obs)
	}}
	require.Equal(t, ExitInterrupted, c.execute("ab", "--plugin-dir", pluginDir(t, "fake"),
		"--transport", "fake", "--b", "", "--out", filepath.Join(t.TempDir(), "made")))
	require.Contains(t, c.stderr, "interrupted after 2 repeats")
}
