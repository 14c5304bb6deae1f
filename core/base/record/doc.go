// Package record holds the data that a host and its ranks exchange: the orders
// that [Control] carries to a rank, the [Report] that comes back for each phase,
// and the [Histogram] in which a report counts latencies. It measures nothing,
// so the host and offline tools share it without linking the measured runtime.
package record
