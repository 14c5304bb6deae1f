// Package consistency checks the arithmetic that the figures of one measurement must satisfy:
// Little's law, amounts that are rate times time, parts that add up to their whole, percentiles in
// order.
//
// It checks every result when the runner writes it, the cells of a set when it is read, and the
// figures of published documents, whose claims are [Work], [Loop], [Sum], [Limit], [Ratio] and
// [Percentiles]. Messages are for readers of the figures.
package consistency
