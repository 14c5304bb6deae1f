package set

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
)

var update = flag.Bool("update", false, "rewrite the schemas from the Go types")

// The schemas of sets and of published figures are files beside their types.
var schemas = []struct {
	path, id, dir, pkg string
	of                 any
}{
	{"schema.json", "urn:transportbench:set:3", ".", "transportbench/core/lab/store/set", new(Set)},
	{"../published/schema.json", "urn:transportbench:published:1", "../published",
		"transportbench/core/lab/store/published", new(published.Document)},
}

func TestSchemaFiles(t *testing.T) {
	for _, s := range schemas {
		reflector := invopop.Reflector{
			BaseSchemaID:              invopop.ID(s.id),
			AllowAdditionalProperties: true, // later minor versions add some
			Mapper: func(typ reflect.Type) *invopop.Schema {
				// in the schema of results
				if typ == reflect.TypeFor[result.Result]() ||
					typ == reflect.TypeFor[config.Config]() {
					return &invopop.Schema{Type: "object"}
				}
				return nil
			},
		}
		require.NoError(t, reflector.AddGoComments(s.pkg, s.dir))
		schema := reflector.Reflect(s.of)
		schema.ID = invopop.ID(s.id)
		text, err := json.MarshalIndent(schema, "", "  ")
		require.NoError(t, err)
		text = append(text, '\n')
		if *update {
			require.NoError(t, os.WriteFile(s.path, text, 0o644))
		}
		committed, err := os.ReadFile(s.path)
		require.NoError(t, err)
		require.Equal(t, string(committed), string(text),
			"%s: run go test ./core/lab/store/set -run TestSchemaFiles -update", s.path)
	}
}

// validate checks a document against one of the schemas.
func validate(t *testing.T, which int, document []byte) {
	t.Helper()
	text, err := os.ReadFile(schemas[which].path)
	require.NoError(t, err)
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource(schemas[which].id, schema))
	compiled, err := c.Compile(schemas[which].id)
	require.NoError(t, err)
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	require.NoError(t, err)
	require.NoError(t, compiled.Validate(instance))
}

func TestWhatIsWrittenFollowsTheSchemas(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, run(1, 1, 2), run(2, 3))
	s, err := Load(dir)
	require.NoError(t, err)
	s.Cells = append(s.Cells, Cell{Config: map[string]string{"transport": "x"}, Status: Failed,
		Reason: "it crashed", Environment: -1,
		Samples: map[string][]float64{}})
	var index, whole bytes.Buffer
	require.NoError(t, s.Encode(&index))
	require.NoError(t, s.EncodeWhole(&whole))
	validate(t, 0, index.Bytes())
	validate(t, 0, whole.Bytes())

	paths, err := filepath.Glob("../../../../results/published/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		validate(t, 1, text)
	}
}
