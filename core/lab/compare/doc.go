// Package compare says what changed between two sets of results, and which
// value of an option wins within one.
//
// Cells are matched by configuration. For each metric of a pair the change is
// the Hodges-Lehmann estimate over the repeats, as a ratio, with the interval
// that belongs to the Mann-Whitney test; p is that test's, exact for up to 20
// repeats a side, and Holm-adjusted over all tests of the report. The repeat
// is the sample, never the op. A change counts only where its adjusted p is
// below alpha and it is larger than a floor below which nobody would act.
//
// See docs/decisions/0050 to 0052 for what was not taken.
package compare
