// Package result is the record of a run: its types, the file that holds it,
// and the JSON Schema that the file follows.
//
// A result keeps what was measured (the reports of every rank, per repeat)
// beside what was concluded from it (summary and checks), so that later
// versions can conclude again. Percentiles are read from merged histograms;
// medians and intervals are taken over repeats, never over ops.
//
// # Versions
//
// The schema has a semantic version. Within a major version fields are only
// added, and added ones are optional; readers ignore what they do not know. A
// change that breaks this raises the major version and adds a migration, so
// that [Read] accepts every older file. The schema of the current major
// version is schema.json, made from the types:
//
//	go test ./core/lab/result -run TestSchemaFile -update
package result
