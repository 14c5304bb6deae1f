package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core"
	"transportbench/core/base/machine"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// calibrationOf returns one of a machine that finds changes of least with 10 repeats, and none
// below.
func calibrationOf(identity machine.Identity, least float64) *calibration.Document {
	return &calibration.Document{
		SchemaVersion: calibration.SchemaVersion, Kind: calibration.Kind, ID: result.NewID(),
		Alpha:       0.05,
		StartedAt:   time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Environment: machine.Environment{Identity: identity},
		Tool:        result.Tool{Version: core.Version},
		Plugin:      result.Plugin{RuntimeDigest: core.RuntimeDigest()},
		Power: []calibration.Power{{Load: "echo", Repeats: 10, Trials: []calibration.Trials{
			{Known: least / 2, Count: 30, Found: 3, Share: calibration.Estimate{Value: 0.1}},
			{Known: least, Count: 30, Found: 30, Share: calibration.Estimate{Value: 1}},
		}}},
	}
}

// On a machine that was not seen to find 5%, there is no verdict on 5%, unless the user wants one.
func TestCalibrationSetsTheLeastChange(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	here := machine.Identity{CPU: "some", Arch: "amd64"}
	identity, err := set.Flatten(here)
	require.NoError(t, err)
	on := func(s *set.Set) { s.Environments[0].Identity = identity }
	old, slower := setOf(t, on, 1e6, 2e6), setOf(t, on, 1e6, 1.9e6)
	two := setOf(t, func(s *set.Set) {
		on(s)
		s.Cells[1].Config["in_flight"], s.Cells[1].Config["transport"] = "1", "tcpx"
	}, 1e6, 0.95e6)
	diff := func(code int, args ...string) *command {
		t.Helper()
		cmd := &command{T: t}
		require.Equal(t, code, cmd.execute(append([]string{"diff"}, args...)...), "%s%s",
			cmd.stdout, cmd.stderr)
		return cmd
	}
	cmd := diff(ExitRegression, old, slower)
	const none = "the default; no full calibration of this machine"
	require.Contains(t, cmd.stdout, "note: least change that counts: 2%, "+none+
		"; --floor sets another\n")
	require.NotContains(t, cmd.stderr, "calibration", "the note says it")
	require.Contains(t, diff(ExitRegression, old, slower, "--format", "markdown").stdout, none)

	path := filepath.Join(slower, calibration.FileName)
	require.NoError(t, calibration.Write(path, calibrationOf(here, 0.2)))
	cmd = diff(ExitOK, old, slower)
	from := "found in 30 of 30 trials with 10 repeats (calibration of 2026-03-04, " + path + "), " +
		calibration.DriftUnknown
	require.Contains(t, cmd.stdout, "note: least change that counts: 20%, "+from+
		"; --floor sets another\n")
	require.Contains(t, cmd.stdout, "over 2 tests against changes of 20%")
	require.NotContains(t, diff(ExitRegression, old, slower, "--floor", "2%").stdout,
		"least change that counts")

	var report struct {
		Floor float64
		From  string `json:"floor_from"`
	}
	require.NoError(t, json.Unmarshal([]byte(diff(ExitOK, old, slower, "--format", "json").stdout),
		&report))
	require.Equal(t, 0.2, report.Floor)
	require.Equal(t, from, report.From)

	require.Contains(t, diff(ExitOK, "--along", "transport", two).stdout,
		"1 comparison, 0 undecided")
	require.NoError(t, calibration.Write(filepath.Join(two, calibration.FileName),
		calibrationOf(here, 0.2)))
	require.Contains(t, diff(ExitOK, "--along", "transport", two).stdout,
		"1 comparison, 1 undecided (alpha 0.05 over 1 test of all pairs against leads of 20%")
	require.NoError(t,
		json.Unmarshal([]byte(diff(ExitOK, "--along", "transport", two, "--format", "json").stdout),
			&report))
	require.Contains(t, report.From, two)

	require.NoError(t, calibration.Write(path, calibrationOf(here, 0.20306)))
	require.Contains(t, diff(ExitOK, old, slower).stdout, "against changes of 20.3%")
	require.NoError(t, calibration.Write(path, calibrationOf(here, 0.2)))

	page := filepath.Join(t.TempDir(), "report.html")
	cmd = &command{T: t}
	require.Zero(t, cmd.execute("report", old, slower, "-o", page), cmd.stderr)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "The least change that counts is 20%, "+from)
	require.Contains(t, string(text), "2026-03-04 05:06 UTC, transportbench ")

	require.NoError(t, os.WriteFile(path, []byte(`{"kind": "calib`), 0o600))
	cmd = diff(ExitRegression, old, slower)
	require.Contains(t, cmd.stderr, "transportbench: reading calibration "+path+": ")
	require.NoError(t, calibration.Write(path,
		calibrationOf(machine.Identity{CPU: "another", Arch: "amd64"}, 0.2)))
	require.Contains(t, diff(ExitRegression, old, slower).stderr,
		path+` is of another machine: cpu "another" instead of "some"`)
}

// ab uses the calibration of this machine.
func TestABUsesTheCalibration(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ab := func() (int, *command) {
		c := &command{T: t, out: filepath.Join(t.TempDir(), "made"), run: oneRepeat}
		return c.execute("ab", "--plugin-dir", pluginDir(t, "fake"), "--out", c.out, "--transport",
			"fake", "--a", "in-flight=2", "--b", "in-flight=1"), c
	}
	code, c := ab()
	require.Equal(t, ExitRegression, code, c.stderr)
	here := machine.ReadEnvironment().Identity
	path, err := calibration.StatePath(here)
	require.NoError(t, err)
	require.NoError(t, calibration.Write(path, calibrationOf(here, 0.9)))
	code, c = ab()
	require.Equal(t, ExitOK, code, c.stderr)
	require.Contains(t, c.stdout, "note: least change that counts: 90%, found in 30 of 30 trials "+
		"with 10 repeats (calibration of 2026-03-04, "+path+")")
}
