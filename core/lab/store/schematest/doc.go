// Package schematest keeps the JSON schemas of documents equal to the Go types that they describe.
package schematest
