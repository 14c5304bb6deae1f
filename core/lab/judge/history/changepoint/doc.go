// Package changepoint finds where the level of a series changes.
//
// It divides a series into the segments for which the squared distances to the segments' means,
// plus a penalty for each segment, are least: optimal partitioning, pruned as PELT does it (R.
// Killick, P. Fearnhead and I. A. Eckley, Optimal Detection of Changepoints With a Linear
// Computational Cost, Journal of the American Statistical Association 107, 2012). The unit of the
// distances is the noise, estimated from the differences of neighbours, which a few changes of the
// level do not affect. Values far from their neighbours on both sides are moved closer first, so
// that a single outlier is no segment.
//
// The penalty is the only constant. TestFalseAlarms has what it costs on series without a change.
package changepoint
