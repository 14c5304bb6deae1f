// Package set defines the record of several runs. It has one cell for each configuration, with what
// a comparison needs of it.
//
// A set is one JSON document (kind "set"). In a directory it is index.json beside the files of the
// runs, and lists the files of each cell. The files are authoritative; the index is fast to read,
// because its cells have the samples of each repeat but no reports or histograms. A comparison of
// two sets of 10,000 cells reads 60 MB of indexes instead of 3 GB of results. A set can also be a
// single file that holds the results of its cells.
//
// [Load] reads a set's file or directory, any directory of result files, a result file, or
// published figures (package core/lab/store/published).
package set
