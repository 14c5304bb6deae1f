// Package machine is what the runtime measures with: a calibrated [Clock], a
// mergeable [Histogram], what the kernel says of a thread ([ThreadUsage],
// [Affinity], [Counters]) and of the process, and the [Environment] that a
// result is recorded in.
//
// Only [Clock.Now], [Clock.Nanos], [Clock.Ticks] and [Histogram.Record] are
// meant for a measured loop; everything else makes system calls or allocates.
package machine
