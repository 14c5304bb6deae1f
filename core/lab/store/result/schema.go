package result

import (
	"bytes"
	_ "embed"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaID names the schema; nothing is fetched from it.
const schemaID = "urn:transportbench:result:2"

// schemaJSON is the JSON Schema (draft 2020-12) of result files.
//
//go:embed schema.json
var schemaJSON []byte

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaJSON))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(schemaID, document); err != nil {
		return nil, err
	}
	return c.Compile(schemaID)
})
