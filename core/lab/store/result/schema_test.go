package result

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

var update = flag.Bool("update", false, "rewrite schema.json from the Go types")

func TestSchemaFile(t *testing.T) {
	generated := generateSchema(t)
	if *update {
		require.NoError(t, os.WriteFile("schema.json", generated, 0o644))
	}
	committed, err := os.ReadFile("schema.json")
	require.NoError(t, err)
	require.True(t, bytes.Equal(generated, committed),
		"schema.json differs from the types: run go test ./core/lab/store/result -run "+
			"TestSchemaFile -update")
	if !*update { // the embedded copy is of the last build
		require.True(t, bytes.Equal(committed, schemaJSON),
			"the embedded schema differs from the file")
	}
}

func generateSchema(t *testing.T) []byte {
	t.Helper()
	textMarshaler := reflect.TypeFor[encoding.TextMarshaler]()
	reflector := jsonschema.Reflector{
		BaseSchemaID:              schemaID,
		AllowAdditionalProperties: true, // later minor versions add some
		Mapper: func(typ reflect.Type) *jsonschema.Schema {
			// encoding/json writes these as strings whatever their kind.
			if typ != reflect.TypeFor[time.Time]() && typ.Implements(textMarshaler) {
				return &jsonschema.Schema{Type: "string"}
			}
			if typ == reflect.TypeFor[config.Sizes]() {
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
					{Type: "integer"},
					{Type: "string", Pattern: "^(uniform|histogram):"},
				}}
			}
			return nil
		},
	}
	require.NoError(t, reflector.AddGoComments("transportbench/core/lab/store/result", "."))
	schema := reflector.Reflect(new(Result))
	describeOptions(t, schema.Definitions["Config"])
	schema.ID = schemaID
	schema.Title = "transportbench result, version " + SchemaVersion
	text, err := json.MarshalIndent(schema, "", "  ")
	require.NoError(t, err)
	return append(text, '\n')
}

// describeOptions adds what the table of options says about the fields of a configuration. Bounds
// are words, because those of other versions may differ.
func describeOptions(t *testing.T, of *jsonschema.Schema) {
	for _, f := range config.Fields() {
		property, has := of.Properties.Get(strings.ReplaceAll(f.Name, "-", "_"))
		require.True(t, has, f.Name)
		property.Description = f.Help + " (" + f.Range() + ")"
	}
}

func TestValidate(t *testing.T) {
	require.NoError(t, Validate(encoded(t, sample(t))))

	// Validate must find each edit and name its location.
	for _, c := range []struct {
		name  string
		edit  func(doc map[string]any)
		place string
	}{
		{"no id", func(d map[string]any) { delete(d, "id") }, "id"},
		{"ill-typed repeats", func(d map[string]any) { d["repeats"] = "none" }, "/repeats"},
		{"another kind", func(d map[string]any) { d["kind"] = "walk" }, "/kind"},
		{"another major", func(d map[string]any) { d["schema_version"] = "3.0.0" },
			"/schema_version"},
		{"bad direction", func(d map[string]any) {
			d["summary"].(map[string]any)["throughput"].(map[string]any)["better"] = "sideways"
		}, "/summary/throughput/better"},
		{"bad time", func(d map[string]any) { d["started_at"] = "yesterday" }, "/started_at"},
		{"fraction for a count", func(d map[string]any) {
			d["config"].(map[string]any)["ranks"] = 2.5
		}, "/config/ranks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Validate(edited(t, c.edit))
			require.ErrorContains(t, err, c.place)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	require.ErrorContains(t, Validate([]byte("{")), "not JSON")
}
