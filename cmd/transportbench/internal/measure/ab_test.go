package measure_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
)

func TestAB(t *testing.T) {
	run := func(args ...string) *clitest.Command {
		c := &clitest.Command{T: t, Out: filepath.Join(t.TempDir(), "made")}
		c.Run = clitest.OneRepeat
		c.Execute(
			append([]string{"ab", "--plugin-dir", clitest.PluginDir(t, "fake", "other", "stub"),
				"--out", c.Out}, args...)...)
		return c
	}
	code := func(args ...string) (int, *clitest.Command) {
		c := &clitest.Command{T: t, Out: filepath.Join(t.TempDir(), "made"), Run: clitest.OneRepeat}
		return c.Execute(
			append([]string{"ab", "--plugin-dir", clitest.PluginDir(t, "fake", "other", "stub"),
				"--out", c.Out}, args...)...), c
	}
	c := run("--transport", "fake", "--a", "in-flight=2", "--b", "in-flight=1 ring=onesided")
	require.Contains(t, c.Stdout, "fake in_flight=2 ring=lamport -> fake in_flight=1 ring=onesided")
	require.Regexp(t, `throughput +2.00 M op/s +1.00 M op/s +-50.0% .* WORSE`, c.Stdout)
	require.Contains(t, c.Stderr, "the interval is narrow enough after 10 repeats of each")
	results := c.Results()
	require.Len(t, results, 2)
	require.Len(t, results[0].Repeats, 10)

	c = run("--transport", "fake", "--profile", "kvcache", "--a", "read-ratio=0", "--b",
		"read-ratio=1", "--repeats", "2", "--most", "2")
	loads := c.Results()
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
			app.ExitOK, ""},
		{[]string{"--transport", "fake", "--a", "in-flight=2", "--b", "in-flight=1"},
			app.ExitRegression, "WORSE"},
		{[]string{"--transport", "fake", "--a", "in-flight=2", "--b", "in-flight=1", "--fail-on",
			"throughput<-60%"}, app.ExitOK, ""},
		{[]string{"--transport", "fake", "--a", "", "--repeats", "2", "--max-repeats", "2"},
			app.ExitTooLittle, "too few repeats"},
		{[]string{"--transport", "fake", "--a", "in-flight=2", "--in-flight", "2"}, app.ExitOK,
			"--b is not given: B is fake with the flags that apply to both sides, and " +
				"the defaults"},
		{[]string{"--transport", "fake", "--a", "", "--repeats", "2", "--max-repeats", "2"},
			app.ExitTooLittle, "raise --max-repeats (2) for more, or --within (1%)"},
		{[]string{"--transport", "fake", "--a", "", "--limit", "1ns"}, app.ExitTooLittle,
			"the time is up after 1 repeat of each; raise --limit (1ns) for more, or " +
				"--within (1%)"},
		{[]string{"--transport", "fake", "--a", "", "--in-flight", "1,2"}, app.ExitUsage,
			"--in-flight: ab takes one value"},
		{[]string{"--transport", "fake", "--a", "in-flight"}, app.ExitUsage,
			"not of the form option=value"},
		{[]string{"--transport", "fake", "--a", "rnig=x"}, app.ExitUsage, `did you mean "ring"?`},
		{[]string{"--transport", "fake", "--a", "", "--within", "0"}, app.ExitUsage, "--within"},
		{[]string{"--transport", "stub", "--a", ""}, app.ExitInternal, "install libfake-dev"},
		{[]string{"--transport", "fake"}, app.ExitUsage, "needs --a or --b"},
		{[]string{"--transport", "all", "--a", ""}, app.ExitUsage, "one transport per side"},
	} {
		got, c := code(one.args...)
		require.Equal(t, one.code, got, "%v: %s", one.args, c.Stderr)
		require.Contains(t, c.Stderr, one.stderr)
	}

	old, new := clitest.PluginDir(t, "fake"), clitest.PluginDir(t, "other", "fake")
	for _, one := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"--transport", "fake", "--a", "plugin-dir=" + old, "--b", "plugin-dir=" + new},
			app.ExitOK, "B: fake 1.2.3, runtime "},
		{[]string{"--transport", "fake", "--a", "plugin-dir=" + old, "--b", "plugin-dir=" + new},
			app.ExitOK, "A and B have the same plugin"},
		{[]string{"--transport", "fake", "--b", "--plugin-dir=" + new + " in-flight=2"},
			app.ExitOK, new},
		{[]string{"--transport", "other", "--a", "plugin-dir=" + old, "--b", "plugin-dir=" + new},
			app.ExitUsage, `there is no plugin "other" in ` + old},
		{[]string{"--transport", "fake", "--a", "plugin-dir=/nonexistent"}, app.ExitUsage,
			`"/nonexistent" is not a directory`},
		{[]string{"--transport", "fake", "--a", "plugin-dir="}, app.ExitUsage,
			`"" is not a directory`},
		{[]string{"--transport", "all", "--a", "plugin-dir=" + new}, app.ExitUsage,
			"one transport per side"},
	} {
		got, c := code(one.args...)
		require.Equal(t, one.code, got, "%v: %s", one.args, c.Stderr)
		require.Contains(t, c.Stderr, one.stderr)
	}

	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	c = &clitest.Command{T: t, Ctx: ctx, Run: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		if n++; n == 5 {
			cancel()
			return nil, ctx.Err()
		}
		return clitest.OneRepeat(ctx, req, obs)
	}}
	require.Equal(t, app.ExitInterrupted,
		c.Execute("ab", "--plugin-dir", clitest.PluginDir(t, "fake"), "--transport", "fake", "--b",
			"", "--out", filepath.Join(t.TempDir(), "made")))
	require.Contains(t, c.Stderr, "interrupted after 2 repeats")
}
