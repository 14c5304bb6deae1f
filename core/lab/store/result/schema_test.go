package result

import (
	"bytes"
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/schematest"
)

var schemaFile = schematest.File{
	Path: "schema.json", ID: "urn:transportbench:result:2",
	Title: "transportbench result, version " + SchemaVersion, Of: new(Result),
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

// What the schema refuses is refused by reading, too: an ill-typed value, and each field that is
// missing or null.
func TestReadingFollowsTheSchema(t *testing.T) {
	schemaFile.Follows(t, encoded(t, sample(t)))
	schema := schemaFile.Compile(t)
	requireSame := func(what string, text []byte) {
		t.Helper()
		instance, err := validator.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		_, err = Parse(text)
		require.Equal(t, schema.Validate(instance) == nil, err == nil, "%s: %v", what, err)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
		}
	}
	for name, edit := range map[string]func(doc map[string]any){
		"ill-typed repeats": func(d map[string]any) { d["repeats"] = "none" },
		"another kind":      func(d map[string]any) { d["kind"] = "walk" },
		"another major":     func(d map[string]any) { d["schema_version"] = "3.0.0" },
		"bad time":          func(d map[string]any) { d["started_at"] = "yesterday" },
		"fraction for a count": func(d map[string]any) {
			d["config"].(map[string]any)["ranks"] = 2.5
		},
		"null in a list": func(d map[string]any) {
			d["repeats"] = append(d["repeats"].([]any), nil)
		},
	} {
		requireSame(name, edited(t, edit))
	}
	edits := 0
	var each func(value any, at string, encode func() []byte)
	each = func(value any, at string, encode func() []byte) {
		switch value := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				kept, within := value[name], at+"/"+name
				each(kept, within, encode)
				delete(value, name)
				requireSame("without "+within, encode())
				value[name] = nil
				requireSame("null at "+within, encode())
				value[name] = kept
				edits++
			}
		case []any:
			if len(value) > 0 {
				each(value[0], at+"/0", encode)
			}
		}
	}
	edited(t, func(doc map[string]any) {
		each(doc, "", func() []byte {
			text, err := json.Marshal(doc)
			require.NoError(t, err)
			return text
		})
	})
	require.Greater(t, edits, 100)
}
