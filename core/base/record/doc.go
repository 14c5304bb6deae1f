// Package record has the data that a host and its ranks exchange: the [Control] interface and its
// arguments, the [Report] of each window, and the [Histogram] in which a report counts
// latencies. It measures nothing, so the host and the offline tools share it without linking the
// measured runtime.
package record
