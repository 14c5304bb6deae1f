package schematest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the schemas from the Go types")

// File is a schema file and the type that it describes.
type File struct {
	Path, ID, Title string
	// Package is the import path of the type's package, and Dir its directory; empty is the
	// current one. The comments there become descriptions.
	Package, Dir string
	Of           any
	// Map returns the schema of a type, or nil for that of its fields. A nil Map has none.
	Map func(reflect.Type) *invopop.Schema
	// Edit changes the schema before it is compared. It may be nil.
	Edit func(*invopop.Schema)
}

// Require fails the test if the file differs from the type. With -update it writes the file first.
func (f File) Require(t *testing.T) {
	t.Helper()
	reflector := invopop.Reflector{
		BaseSchemaID:              invopop.ID(f.ID),
		AllowAdditionalProperties: true, // later minor versions add some
		Mapper:                    f.Map,
	}
	dir := f.Dir
	if dir == "" {
		dir = "."
	}
	require.NoError(t, reflector.AddGoComments(f.Package, dir))
	for name, comment := range reflector.CommentMap {
		// Descriptions do not change because a comment is wrapped elsewhere.
		reflector.CommentMap[name] = strings.ReplaceAll(comment, "\n", " ")
	}
	schema := reflector.Reflect(f.Of)
	schema.ID, schema.Title = invopop.ID(f.ID), f.Title
	if f.Edit != nil {
		f.Edit(schema)
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	require.NoError(t, err)
	text = append(text, '\n')
	if *update {
		require.NoError(t, os.WriteFile(f.Path, text, 0o644))
	}
	committed, err := os.ReadFile(f.Path)
	require.NoError(t, err)
	require.Equal(t, string(committed), string(text),
		"%s differs from the types: run go test . -run %s -update here", f.Path, t.Name())
}

// Compile returns the schema of the file.
func (f File) Compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(f.Path)
	require.NoError(t, err)
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource(f.ID, schema))
	compiled, err := c.Compile(f.ID)
	require.NoError(t, err)
	return compiled
}

// Follows fails the test if the document breaks the schema of the file.
func (f File) Follows(t *testing.T, document []byte) {
	t.Helper()
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	require.NoError(t, err)
	require.NoError(t, f.Compile(t).Validate(instance))
}
