package result

import (
	"encoding"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/schematest"
)

var schemaFile = schematest.File{
	Path: "schema.json", ID: schemaID, Title: "transportbench result, version " + SchemaVersion,
	Of: new(Result),
	Map: func(typ reflect.Type) *jsonschema.Schema {
		// encoding/json writes these as strings whatever their kind.
		if typ != reflect.TypeFor[time.Time]() &&
			typ.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
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
	Edit: func(schema *jsonschema.Schema) { describeOptions(schema.Definitions["Config"]) },
}

func TestSchemaFile(t *testing.T) { schemaFile.Require(t) }

// describeOptions adds what the table of options says about the fields of a configuration. Bounds
// are words, because those of other versions may differ.
func describeOptions(of *jsonschema.Schema) {
	for _, f := range config.Fields() {
		property, _ := of.Properties.Get(strings.ReplaceAll(f.Name, "-", "_"))
		property.Description = f.Help + " (" + f.Range() + ")"
	}
}

func TestValidate(t *testing.T) {
	require.NoError(t, validate(encoded(t, sample(t)), partSize))

	// validate must find each edit and name its location.
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
			err := validate(edited(t, c.edit), partSize)
			require.ErrorContains(t, err, c.place)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}
