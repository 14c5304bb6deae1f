// Package analyze explains where the time of a measurement goes and what bounds its throughput, in
// words and figures. It reads results and sets; it measures nothing.
//
// [Results] explains one configuration: the stages of a remote request, the daemon's loop, Little's
// law, a queueing model and what it predicts, the limit that floor and service times allow, and the
// overhead of flush policy, credits, scanning and back-pressure. From these follows a [Verdict].
// [CapacityOf] reads the cells of a set that differ only in load: the highest throughput under an
// objective, operating points, and how many servers a target needs. [Model.Predict] predicts the
// throughput of another configuration.
//
// Means are added and stacked. Percentiles are neither added nor averaged.
package analyze
