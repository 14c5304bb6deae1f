// Package consistency checks the arithmetic that the published figures of a document must satisfy:
// Little's law, amounts that are rate times time, parts that add up to their whole, percentiles in
// order. Its messages are for readers of these figures. Package check judges the records of a run,
// from which the figures of the run are computed.
package consistency
