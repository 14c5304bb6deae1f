// Package consistency checks the arithmetic that the published figures of a document must satisfy:
// Little's law, amounts that are rate times time, parts that add up to their whole, percentiles in
// order. Messages are for readers of the figures. The figures of a run follow from what its ranks
// recorded, which package check judges.
package consistency
