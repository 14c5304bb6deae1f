// Package consistency checks the arithmetic that the figures of one measurement must satisfy:
// Little's law, amounts that are rate times time, parts that add up to their whole, percentiles in
// order.
//
// It checks the results that are analyzed, the cells of a set that [ReadSet] reads, and published
// figures with the claims of their documents. Messages are for readers of the figures.
package consistency
