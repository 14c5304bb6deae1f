// Package analyze says in words, with the figures, where the time of a
// measurement goes and what bounds its throughput. It reads results and sets
// and measures nothing: every figure comes from the files.
//
// [Results] explains one configuration: the stages of a remote request against
// its whole, the daemon's loop, Little's law, a queueing model against the
// measured throughput, the limit that floor and service times allow, and what
// flush policy, credits, scanning and back-pressure took; from these follows a
// [Verdict]. [CapacityOf] looks at cells of a set that differ in load alone:
// the most throughput under an objective, operating points, and how many
// servers a target takes. [Model.Predict] says what the model expects of
// another configuration.
//
// Means add up and are stacked; percentiles are neither added nor averaged.
package analyze
