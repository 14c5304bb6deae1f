// Package reproduce compares results with the tables of documents: for each document it knows what
// to measure, which cell of the results corresponds to which row of a table, and what was published
// for it.
//
// The descriptions are files: a sweep NAME.yaml, and NAME-full.yaml with the parameters of the
// document; tables/NAME.yaml, which becomes a [Document]; and the published figures.
package reproduce
