package history

import (
	"bytes"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/schematest"
)

var schema = schematest.File{
	Path: "schema.json", ID: "urn:transportbench:history:1",
	Title: "transportbench history, version " + DocumentVersion,
	Of:    new(Document),
}

func TestSchemaFile(t *testing.T) { schema.Require(t) }

// What is written follows the schema, and what breaks it is found.
func TestDocumentFollowsTheSchema(t *testing.T) {
	compiled := schema.Compile(t)
	check := func(h *History, series []Series, edit func(map[string]any)) error {
		var text bytes.Buffer
		require.NoError(t, h.Encode(&text, series))
		instance, err := jsonschema.UnmarshalJSON(&text)
		require.NoError(t, err)
		if edit != nil {
			edit(instance.(map[string]any))
		}
		return compiled.Validate(instance)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	blessing := Blessing{Who: "ada", Why: "new kernel", At: at}
	h := &History{Sets: []Set{{Path: "nightly/a", Label: "a", StartedAt: at},
		{Path: "nightly/b", Label: "b", StartedAt: at, Version: "1", Revision: "r",
			Blessed: []Blessing{blessing}}}}
	series := []Series{{
		Cell: "0123", Load: "kv", Transport: "shm", Metric: "throughput", Unit: "op/s",
		Better: "higher", Points: []Point{{0, 2e6, 10, nil}, {1, 1e6, 10, new(0.1)}},
		Changes: []Change{{Set: 1, Old: 2e6, New: 1e6, Share: -0.5, Worse: true,
			Blessed: &blessing}},
	}}
	require.NoError(t, check(h, series, nil))
	require.NoError(t, check(h, nil, nil))
	for field, edit := range map[string]func(map[string]any){
		"kind":           func(d map[string]any) { d["kind"] = "result" },
		"schema_version": func(d map[string]any) { d["schema_version"] = "2.0.0" },
		"series":         func(d map[string]any) { d["series"] = nil },
		"points": func(d map[string]any) {
			d["series"].([]any)[0].(map[string]any)["points"].([]any)[0].(map[string]any)["value"] =
				"fast"
		},
		"who": func(d map[string]any) {
			delete(d["sets"].([]any)[1].(map[string]any)["blessed"].([]any)[0].(map[string]any),
				"who")
		},
		"started_at": func(d map[string]any) {
			d["sets"].([]any)[0].(map[string]any)["started_at"] = "yesterday"
		},
	} {
		require.Error(t, check(h, series, edit), field)
	}
}
