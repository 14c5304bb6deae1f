package result

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// Validate checks an encoded result against the schema. The error is one line and has the locations
// of the first violations.
func Validate(data []byte) error {
	schema, err := compiled()
	if err != nil {
		return fmt.Errorf("compiling the result schema: %w", err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("validating result: not JSON: %w", err)
	}
	if err := schema.Validate(document); err != nil {
		return fmt.Errorf("validating result: %s", firstViolations(err))
	}
	return nil
}

// firstViolations returns the first few leaves of a validation error on one line.
func firstViolations(err error) string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	const most = 3
	found := violations(*invalid.DetailedOutput(), nil)
	if len(found) > most {
		found = append(found[:most], fmt.Sprintf("and %d more", len(found)-most))
	}
	return strings.Join(found, "; ")
}

func violations(unit jsonschema.OutputUnit, found []string) []string {
	for _, cause := range unit.Errors {
		found = violations(cause, found)
	}
	if len(unit.Errors) > 0 || unit.Error == nil {
		return found
	}
	location := cmp.Or(unit.InstanceLocation, "the document")
	// Quoting escapes line breaks of the file, which both parts may have.
	text := strconv.Quote(location + ": " + unit.Error.String())
	return append(found, strings.ReplaceAll(text[1:len(text)-1], `\"`, `"`))
}
