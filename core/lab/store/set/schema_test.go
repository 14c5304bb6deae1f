package set

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	invopop "github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/schematest"
)

// The schemas of sets and of published figures are files beside their types.
var (
	setSchema = schematest.File{Path: "schema.json", ID: "urn:transportbench:set:3",
		Of: new(Set), Map: otherSchemas}
	publishedSchema = schematest.File{Path: "../published/schema.json",
		ID: "urn:transportbench:published:1",
		Of: new(published.Document), Map: otherSchemas}
)

// otherSchemas leaves out what the schema of results describes.
func otherSchemas(typ reflect.Type) *invopop.Schema {
	if typ == reflect.TypeFor[result.Result]() || typ == reflect.TypeFor[config.Config]() {
		return &invopop.Schema{Type: "object"}
	}
	return nil
}

func TestSchemaFiles(t *testing.T) {
	setSchema.Require(t)
	publishedSchema.Require(t)
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
	setSchema.Follows(t, index.Bytes())
	setSchema.Follows(t, whole.Bytes())

	paths, err := filepath.Glob("../../../../results/published/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		publishedSchema.Follows(t, text)
	}
}
