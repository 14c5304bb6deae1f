package published

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/jsondoc"
)

const committed = "../../../../results/published/*.json"

func documents(t *testing.T) map[string]*Document {
	t.Helper()
	paths, err := filepath.Glob(committed)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	all := map[string]*Document{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		d, err := parse(text)
		require.NoError(t, err, path)
		all[filepath.Base(path)] = d
	}
	return all
}

// The committed documents can be read, and name their rows.
func TestCommittedDocuments(t *testing.T) {
	for name, d := range documents(t) {
		for _, row := range d.Rows {
			require.NotEmpty(t, row.Name, name)
		}
	}
}

func parse(text []byte) (*Document, error) {
	document, err := jsondoc.New(text)
	if err != nil {
		return nil, err
	}
	return Parse(document)
}

func valid() map[string]any {
	return map[string]any{
		"schema_version": "1.0.0", "kind": "published", "source": "a paper",
		"date": "2026-01-01T00:00:00Z",
		"rows": []any{map[string]any{
			"name":   "a row",
			"config": map[string]any{"transport": "x"},
			"metrics": map[string]any{
				"throughput": map[string]any{"value": 1e6, "unit": "op/s"},
			},
			"work": []any{map[string]any{"amount": 2e6, "unit": "op", "seconds": 2,
				"per_second": 1e6}},
		}},
	}
}

func parseEdited(t *testing.T, edit func(document, row map[string]any)) error {
	t.Helper()
	d := valid()
	edit(d, d["rows"].([]any)[0].(map[string]any))
	text, err := json.Marshal(d)
	require.NoError(t, err)
	_, err = parse(text)
	return err
}

func TestParseRefuses(t *testing.T) {
	require.NoError(t, parseEdited(t, func(_, _ map[string]any) {}))
	work := func(row map[string]any) map[string]any {
		return row["work"].([]any)[0].(map[string]any)
	}
	metric := func(row map[string]any) map[string]any {
		return row["metrics"].(map[string]any)["throughput"].(map[string]any)
	}
	for want, edit := range map[string]func(d, row map[string]any){
		"must be above 0": func(_, row map[string]any) { work(row)["amount"] = -1 },
		"space must be above 0": func(_, row map[string]any) {
			row["lookups"] = []any{map[string]any{"what": "x", "count": 1}}
		},
		"0 is not above 0":          func(_, row map[string]any) { metric(row)["value"] = 0 },
		"has no unit":               func(_, row map[string]any) { metric(row)["unit"] = "" },
		"our throughput is in op/s": func(_, row map[string]any) { metric(row)["unit"] = "B/s" },
		"config has no transport": func(_, row map[string]any) {
			row["config"] = map[string]any{}
		},
		"metrics is empty": func(_, row map[string]any) {
			row["metrics"] = map[string]any{}
		},
		"source is missing": func(d, _ map[string]any) { d["source"] = "" },
		"rows is empty":     func(d, _ map[string]any) { d["rows"] = []any{} },
		"newer version":     func(d, _ map[string]any) { d["schema_version"] = "2.0.0" },
		`kind "run"`:        func(d, _ map[string]any) { d["kind"] = "run" },
		"line 1":            func(d, _ map[string]any) { d["rows"] = "none" },
	} {
		require.ErrorContains(t, parseEdited(t, edit), want)
	}
	_, err := parse([]byte(strings.Repeat("[", 1000)))
	require.ErrorContains(t, err, "nested")
}

func FuzzParse(f *testing.F) {
	text, err := json.Marshal(valid())
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := parse(data)
		if err == nil {
			for i := range d.Rows {
				require.NoError(t, d.Rows[i].check())
			}
		}
	})
}
