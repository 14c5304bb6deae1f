package schematest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
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
	// Of is a value of the type. Comments on its fields, and on those of the types in it, become
	// descriptions.
	Of any
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
	comments := &comments{read: map[string]bool{}}
	reflector.LookupComment = func(typ reflect.Type, field string) string {
		text, err := comments.of(typ, field)
		require.NoError(t, err)
		return text
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

// comments finds the comments of the types of this module.
type comments struct {
	read map[string]bool // by import path
	invopop.Reflector
}

// of returns the comment of a field, or of the type itself if field is "". A field without one has
// that of the field of the same type whose comment names it: "From and To are ...".
func (c *comments) of(typ reflect.Type, field string) (string, error) {
	module := strings.TrimSuffix(reflect.TypeFor[File]().PkgPath(), "/core/lab/store/schematest")
	path := typ.PkgPath()
	if !strings.HasPrefix(path, module+"/") {
		return "", nil
	}
	if !c.read[path] {
		c.read[path] = true
		here, err := os.Getwd()
		if err != nil {
			return "", err
		}
		root := here
		for !exists(filepath.Join(root, "go.mod")) {
			root = filepath.Dir(root)
		}
		here = strings.Replace(here, root, module, 1) // the import path of this directory
		dir, err := filepath.Rel(here, path)
		if err != nil {
			return "", err
		}
		if err := c.AddGoComments(here, dir); err != nil {
			return "", err
		}
	}
	key := path + "." + typ.Name()
	if field == "" {
		return plain(c.CommentMap[key]), nil
	}
	if text := c.CommentMap[key+"."+field]; text != "" || typ.Kind() != reflect.Struct {
		return plain(text), nil
	}
	named := regexp.MustCompile(`\b` + field + `\b`)
	for i := range typ.NumField() {
		if text := c.CommentMap[key+"."+typ.Field(i).Name]; named.MatchString(text) {
			return plain(text), nil
		}
	}
	return "", nil
}

// plain returns a comment as one line, so that descriptions do not change because it is wrapped
// elsewhere, and without the brackets of links.
func plain(comment string) string {
	return regexp.MustCompile(`\[(\w+(?:\.\w+)*)\]`).ReplaceAllString(
		strings.ReplaceAll(comment, "\n", " "), "$1")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
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
