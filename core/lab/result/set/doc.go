// Package set is the record of several runs: what a comparison needs of each,
// one cell for each configuration.
//
// A set is one JSON document (kind "set"). In a directory it is index.json
// beside the files of the runs, and says which files each cell comes from; the
// files are the truth and the index is what can be read quickly: its cells
// have the samples of each repeat, and not the reports and histograms. A
// single file can hold all that too, as the results of its cells.
//
// [Load] makes a set of whatever it is given: a set's file or directory, any
// directory of result files, one result file, or published figures (package
// core/lab/result/published).
package set
