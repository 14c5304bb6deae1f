// Package compare finds what changed between two sets of results, and which value of an option wins
// within one.
//
// Cells are matched by configuration. For each metric of a pair, the change is the Hodges-Lehmann
// estimate over the repeats, as a ratio, with the interval that belongs to the Mann-Whitney test.
// Its p-values are adjusted by Holm over all tests of the report. The repeat is the sample, never
// the operation. A change counts only if its adjusted p is below alpha and it is larger than a
// floor, below which a change does not matter.
//
// Benjamini-Hochberg would only bound the share of false alarms among alarms; a gate must bound the
// chance of any.
package compare
