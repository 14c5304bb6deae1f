// Package consistency is the arithmetic that the figures of one measurement
// must satisfy, whoever made them: Little's law, amounts that are the product
// of rate and time, parts that come to their whole, percentiles in order.
//
// It is used in three places: on every result when it is written (a check of
// core/lab/runner), on the cells of a set when it is read (their doubts), and on
// figures that others have published, whose claims are [Work], [Loop], [Sum],
// [Limit] and [Ratio]. Each message is for whoever reads the figures and knows
// nothing of this package.
package consistency
