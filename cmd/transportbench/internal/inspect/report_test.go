package inspect_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/lab/judge/doctor"
	"transportbench/core/lab/store/set"
)

func TestReport(t *testing.T) {
	old, new := clitest.SetOf(t, nil, 1e6, 2e6), clitest.SetOf(t, nil, 1e6, 1.9e6)
	out := filepath.Join(t.TempDir(), "report.html")
	cmd := &clitest.Command{T: t}
	require.Zero(t, cmd.Execute("report", old, new, "-o", out), cmd.Stderr)
	require.Empty(t, cmd.Stdout)
	require.Contains(t, cmd.Stderr, out+": some")
	page, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(page), "<!DOCTYPE html>"))
	require.Contains(t, string(page), "WORSE")
	require.NotRegexp(t, `(src|href)="(https?:)?//`, string(page),
		"nothing is fetched from a network")

	require.Zero(t, cmd.Execute("report", "--compare", old, new, "-o", out), cmd.Stderr)
	machine := clitest.SetOf(t, func(s *set.Set) { s.Environments[0].Identity["cpu"] = "another" },
		1e6, 2e6)
	require.Zero(t, cmd.Execute("report", old, machine, "-o", out), cmd.Stderr)
	require.Equal(t, app.ExitIncomparable, cmd.Execute("report", "--compare", old, machine,
		"-o", out))
	require.Contains(t, cmd.Stderr, "another")

	require.Zero(t, cmd.Execute("report", old, "-o", "-"), cmd.Stderr)
	require.True(t, strings.HasPrefix(cmd.Stdout, "<!DOCTYPE html>"))
}

// TestReportOfPaths draws what doctor writes.
func TestReportOfPaths(t *testing.T) {
	paths := &doctor.Paths{Hosts: []string{"h0", "h1"}}
	paths.Add(0, 1, 20_000, 1e9, nil)
	paths.Add(1, 0, 0, 0, errors.New("dial tcp 10.0.0.1:7: no route to <host>"))
	text, err := json.Marshal(paths.Judge())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "paths.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	one := clitest.SetOf(t, nil, 1e6)
	cmd := &clitest.Command{T: t}
	require.Zero(t, cmd.Execute("report", one, "--paths", file, "-o", "-"), cmd.Stderr)
	require.Contains(t, cmd.Stdout, `<th scope="row">h0</th><td></td><td><div class="path h6">`+
		`<b>100%</b><i>20.0 us</i></div></td>`)
	require.Contains(t, cmd.Stdout, `<div class="path none" title="dial tcp 10.0.0.1:7: no route`+
		` to &lt;host&gt;"><b>none</b>`)
	require.Contains(t, cmd.Stdout, "h1 to h0: dial tcp 10.0.0.1:7: no route to &lt;host&gt;")
	require.Zero(t, cmd.Execute("report", one, "-o", "-"), cmd.Stderr)
	require.NotContains(t, cmd.Stdout, `id="paths"`)
}

func TestReportAndServeErrors(t *testing.T) {
	one, broken := clitest.SetOf(t, nil, 1e6), filepath.Join(t.TempDir(), "paths.json")
	require.NoError(t, os.WriteFile(broken, []byte(`[{"paths": {"hosts": ["a", "b"],
		"round_trip_ns": [[0, 1], [1, 0]], "bytes_per_second": [[0, 1], [1]],
		"failures": [["", ""], ["", ""]]}}]`), 0o600))
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	_, port, err := net.SplitHostPort(busy.Addr().String())
	require.NoError(t, err)
	_, err = strconv.Atoi(port)
	require.NoError(t, err)
	for _, c := range []struct {
		name   string
		args   []string
		stderr string
	}{
		{"no set", []string{"report"}, "takes one or more sets of results"},
		{"one of two sets", []string{"report", "--compare", one},
			"--compare: takes two sets, the old and the new, not 1"},
		{"no such set", []string{"report", "/nonexistent"}, "/nonexistent"},
		{"no such directory", []string{"report", one, "-o", "/nonexistent/report.html"},
			"--output"},
		{"bad objective", []string{"report", one, "--slo", "fast"}, "--slo"},
		{"no such change", []string{"report", clitest.CommittedCell(t, "shm"), "--what-if",
			"client_s=3", "-o", "-"}, `--what-if: "client_s" cannot be changed; did you mean`},
		{"no paths", []string{"report", one, "--paths", filepath.Join(one, "index.json")},
			"--paths: not the output of doctor --hosts --json: "},
		{"paths of no square", []string{"serve", one, "--paths", broken},
			"--paths: paths between 2 hosts without 2 rows of 2"},
		{"two sets", []string{"serve", one, one}, "takes one set of results, got 2"},
		{"nothing to serve", []string{"serve", "/nonexistent"}, "/nonexistent"},
		{"busy port", []string{"serve", one, "--port", port}, "port " + port + " is in use"},
		{"bad port", []string{"serve", one, "--port", "70000"}, "--port"},
		{"too often", []string{"serve", one, "--every", "1ms"}, "--every"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := &clitest.Command{T: t}
			require.Equal(t, app.ExitUsage, cmd.Execute(c.args...), cmd.Stderr)
			require.Contains(t, cmd.Stderr, c.stderr)
			require.Equal(t, 1, strings.Count(cmd.Stderr, "\n"))
		})
	}
}

// Every command that reads results says in one line what is wrong with a path that has none.
func TestPathsWithoutResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calibration.json")
	require.NoError(t, os.WriteFile(path,
		[]byte(`{"schema_version": "2.0.0", "kind": "calibration"}`), 0o600))
	for _, args := range [][]string{{"report"}, {"serve"}, {"analyze"}, {"export"},
		{"diff", "--along", "transport"}} {
		for bad, want := range map[string]string{
			path: "transportbench: " + path + " is a calibration of a machine, " +
				"which has no results; transportbench calibrate show " + path + " shows it\n",
			"/nonexistent/path": "transportbench: /nonexistent/path: no such file or directory; " +
				"name a directory of results, its index, or a result file\n",
		} {
			cmd := &clitest.Command{T: t}
			require.Equal(t, app.ExitUsage, cmd.Execute(append(slices.Clone(args), bad)...))
			require.Equal(t, want, cmd.Stderr, args)
		}
	}
}
