package inspect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/base/machine"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/set"
)

// On a machine that was not seen to find 5%, there is no verdict on 5%, unless the user wants one.
func TestCalibrationSetsTheMinEffect(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	here := machine.Identity{CPU: "some", Arch: "amd64"}
	identity, err := set.Flatten(here)
	require.NoError(t, err)
	on := func(s *set.Set) { s.Environments[0].Identity = identity }
	old, slower := clitest.SetOf(t, on, 1e6, 2e6), clitest.SetOf(t, on, 1e6, 1.9e6)
	two := clitest.SetOf(t, func(s *set.Set) {
		on(s)
		s.Cells[1].Config["in_flight"], s.Cells[1].Config["transport"] = "1", "tcpx"
	}, 1e6, 0.95e6)
	diff := func(code int, args ...string) *clitest.Command {
		t.Helper()
		cmd := &clitest.Command{T: t}
		require.Equal(t, code, cmd.Execute(append([]string{"diff", "-v"}, args...)...), "%s%s",
			cmd.Stdout, cmd.Stderr)
		return cmd
	}
	cmd := diff(app.ExitRegression, old, slower)
	const none = "the default; no full calibration of this machine"
	require.Contains(t, cmd.Stdout, "note: minimum effect: 2%, "+none+
		"; --floor sets another\n")
	require.NotContains(t, cmd.Stderr, "calibration", "the note says it")
	require.Contains(t, diff(app.ExitRegression, old, slower, "--format", "markdown").Stdout, none)

	path := filepath.Join(slower, calibration.FileName)
	require.NoError(t, calibration.Write(path, clitest.CalibrationOf(here, 0.2)))
	cmd = diff(app.ExitOK, old, slower)
	from := "found in 30 of 30 trials of memory with 10 repeats (calibration of 2026-03-04, " +
		path + ")"
	require.Contains(t, cmd.Stdout, "note: minimum effect: 20%, "+from+
		"; --floor sets another\n")
	require.Contains(t, cmd.Stdout, "over 2 tests against changes of 20%")
	require.NotContains(t, diff(app.ExitRegression, old, slower, "--floor", "2%").Stdout,
		"minimum effect")

	var report struct {
		Floor float64
		From  string `json:"floor_from"`
	}
	require.NoError(t,
		json.Unmarshal([]byte(diff(app.ExitOK, old, slower, "--format", "json").Stdout), &report))
	require.Equal(t, 0.2, report.Floor)
	require.Equal(t, from, report.From)

	require.Contains(t, diff(app.ExitOK, "--along", "transport", two).Stdout,
		"1 comparison, 0 undecided")
	require.NoError(t, calibration.Write(filepath.Join(two, calibration.FileName),
		clitest.CalibrationOf(here, 0.2)))
	require.Contains(t, diff(app.ExitOK, "--along", "transport", two).Stdout,
		"1 comparison, 1 undecided (alpha 0.05 over 1 test of all pairs against leads of 20%")
	require.NoError(t,
		json.Unmarshal([]byte(diff(app.ExitOK, "--along", "transport", two, "--format",
			"json").Stdout), &report))
	require.Contains(t, report.From, two)

	require.NoError(t, calibration.Write(path, clitest.CalibrationOf(here, 0.20306)))
	require.Contains(t, diff(app.ExitOK, old, slower).Stdout, "against changes of 20.3%")
	require.NoError(t, calibration.Write(path, clitest.CalibrationOf(here, 0.2)))

	page := filepath.Join(t.TempDir(), "report.html")
	cmd = &clitest.Command{T: t}
	require.Zero(t, cmd.Execute("report", old, slower, "-o", page), cmd.Stderr)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "The minimum effect is 20%, "+from)
	require.Contains(t, string(text), "2026-03-04 05:06 UTC, transportbench ")

	require.NoError(t, os.WriteFile(path, []byte(`{"kind": "calib`), 0o600))
	cmd = diff(app.ExitRegression, old, slower)
	require.Contains(t, cmd.Stderr, "transportbench: reading calibration "+path+": ")
	require.NoError(t, calibration.Write(path,
		clitest.CalibrationOf(machine.Identity{CPU: "another", Arch: "amd64"}, 0.2)))
	require.Contains(t, diff(app.ExitRegression, old, slower).Stderr,
		path+` is of another machine: cpu "another" instead of "some"`)
}

// ab uses the calibration of this machine.
func TestABUsesTheCalibration(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ab := func() (int, *clitest.Command) {
		c := &clitest.Command{T: t, Out: filepath.Join(t.TempDir(), "made"), Run: clitest.OneRepeat}
		return c.Execute("ab", "-v", "--plugin-dir", clitest.PluginDir(t, "fake"), "--out", c.Out,
			"--transport", "fake", "--a", "in-flight=2", "--b", "in-flight=1"), c
	}
	code, c := ab()
	require.Equal(t, app.ExitRegression, code, c.Stderr)
	here := machine.ReadEnvironment().Identity
	path, err := calibration.StatePath(here)
	require.NoError(t, err)
	require.NoError(t, calibration.Write(path, clitest.CalibrationOf(here, 0.9)))
	code, c = ab()
	require.Equal(t, app.ExitOK, code, c.Stderr)
	require.Contains(t, c.Stdout, "note: minimum effect: 90%, found in 30 of 30 trials "+
		"of memory with 10 repeats (calibration of 2026-03-04, "+path+")")
}
