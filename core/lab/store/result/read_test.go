package result

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadGivesBackWhatWasWritten(t *testing.T) {
	r := sample(t)
	path, err := Write(t.TempDir(), r)
	require.NoError(t, err)
	got, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, uint64(1<<64-1), got.Config.Seed)
	require.True(t, r.StartedAt.Equal(got.StartedAt))
	require.JSONEq(t, string(encoded(t, r)), string(encoded(t, got)))
}

func TestReadToleratesNewerMinor(t *testing.T) {
	r, err := Parse(edited(t, func(d map[string]any) {
		d["schema_version"] = "2.9.3"
		d["invented_later"] = map[string]any{"x": 1}
		d["config"].(map[string]any)["invented_later"] = true
	}))
	require.NoError(t, err)
	require.Equal(t, "2.9.3", r.SchemaVersion)
	require.Len(t, r.Repeats, 6)
}

// Results of 0.9.0 and before say in the message alone that a check is not judged.
func TestReadChecksThatAreNotJudged(t *testing.T) {
	r, err := Parse(edited(t, func(d map[string]any) {
		d["checks"] = []any{
			map[string]any{"name": "path", "ok": true, "severity": "error", "value": 0, "limit": 0,
				"message": "not judged: memory"},
			map[string]any{"name": "served", "ok": true, "severity": "error", "value": 0,
				"limit": 0, "message": "all were served"},
		}
	}))
	require.NoError(t, err)
	require.True(t, r.Checks[0].OK && r.Checks[0].NotJudged)
	require.False(t, r.Checks[1].NotJudged)
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
	}{
		{"nothing", "", "not a result"},
		{"not JSON", "throughput 12", "not a result"},
		{"other JSON", `{"results": []}`, "no schema_version"},
		{"list", `[1, 2]`, "not a result"},
		{"version without minor", `{"schema_version": "1", "kind": "run"}`, "semantic version"},
		{"negative version", `{"schema_version": "-1.0.0", "kind": "run"}`, "semantic version"},
		{"newer major", `{"schema_version": "3.0.0", "kind": "run"}`,
			"use the one that wrote it, or a newer one"},
		{"older major without migration", `{"schema_version": "0.1.0", "kind": "run"}`,
			"can no longer be read; known are 1.x, 2.x"},
		{"another kind", `{"schema_version": "1.0.0", "kind": "sweep"}`, `kind "sweep"`},
		{"hollow", `{"schema_version": "2.0.0", "kind": "run"}`, "missing"},
		{"number too large",
			`{"schema_version": "1.0.0", "kind": "run", "setup": {"first_window_ms": 1e999}}`,
			"1e999"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "r.json")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			_, err := Read(path)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, path)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	_, err := Parse([]byte(`{"schema_version": "7.0.0", "kind": "run"}`))
	require.ErrorIs(t, err, ErrNewer)

	missing := filepath.Join(t.TempDir(), "none.json")
	_, err = Read(missing)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.EqualError(t, err, "reading result "+missing+": no such file or directory")
}

// Analyses take time and memory for each rank, client and call, so sizes that no run can have are
// refused.
func TestReadRefusesImpossibleSizes(t *testing.T) {
	for option, c := range map[string]struct {
		key   string
		value any
	}{
		"in-flight: -1 is": {"in_flight", -1}, "in-flight: 65537 is": {"in_flight", 65537},
		"clients: 0 is":                   {"clients", 0},
		"clients: 4611686018427387904 is": {"clients", int64(1) << 62},
		"ranks: 1025 is":                  {"ranks", 1025}, "daemons: 1025 is": {"daemons", 1025},
		"keys: -7 is": {"keys", -7}, "value-size: 2GiB is": {"value_size", 1 << 31},
	} {
		_, err := Parse(
			edited(t, func(d map[string]any) { d["config"].(map[string]any)[c.key] = c.value }))
		require.ErrorContains(t, err, "config: "+option+" out of range", c.key)
	}
	_, err := Parse(edited(t, func(d map[string]any) {
		config := d["config"].(map[string]any)
		config["clients"], config["in_flight"], config["ranks"] = 1024, 65536, 1024
	}))
	require.NoError(t, err)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema_version": "1.0.0", "kind": "run"}`))
	f.Add([]byte(`{"schema_version": "0.9.0", "kind": "run", "repeats": [{}]}`))
	f.Add([]byte(`null`))
	f.Add(encoded(f, sample(f)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		// An accepted result can be used and written again.
		for _, repeat := range r.Repeats {
			_, _ = Histograms(repeat.Latency, repeat.ReadLatency, repeat.WriteLatency)
		}
		again, err := Parse(encoded(t, r))
		require.NoError(t, err)
		require.JSONEq(t, string(encoded(t, r)), string(encoded(t, again)))
	})
}

// TestCommittedResults reads the results in the repository, which have several schema versions.
func TestCommittedResults(t *testing.T) {
	paths, err := filepath.Glob("../../../../results/v*")
	require.NoError(t, err)
	for _, path := range paths {
		readAll(t, path)
	}
}

func readAll(t *testing.T, dir string) {
	read := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimSuffix(d.Name(), ".gz")
		if err != nil || d.IsDir() || !strings.Contains(name, ".json") ||
			name == "index.json" || name == "calibration.json" ||
			strings.HasSuffix(path, ".jsonl") {
			return err // other packages read those
		}
		r, err := Read(path)
		if err == nil {
			read++
			require.NotEmpty(t, r.Repeats, path)
			require.NotEmpty(t, r.Config.Topology, path)
		}
		return err
	}))
	require.NotZero(t, read)
}
