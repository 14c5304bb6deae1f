// Package result defines the record of a run: its types, the file that holds it, and the JSON
// Schema of that file.
//
// A result keeps what was measured (the reports of every rank, for each repeat) together with what
// was concluded from it (summary and checks), so that later versions can conclude again.
// Percentiles are read from merged histograms. Medians and intervals are taken over repeats, never
// over operations.
//
// # Reading results
//
// This package and package set are the ones for tools of others. [Read] and [Parse] return a
// result; a sweep's directory, or several results of one configuration, is a set. Take figures from
// Summary, by the names in [Definitions], and look at Checks first: if one of severity [Error]
// failed, the figures must not be used. Samples of the single repeats are in Repeats. Package
// format formats figures as the command does.
//
// # Versions
//
// The schema has a semantic version. Within a major version, fields are only added, added fields
// are optional, and readers ignore fields that they do not know. A change that breaks this raises
// the major version and adds a migration, so that [Read] accepts every older file. The schema of
// the current major version is schema.json, generated from the types:
//
//	go test ./core/lab/store/result -run TestSchemaFile -update
package result
