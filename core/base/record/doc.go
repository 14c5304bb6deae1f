// Package record has the data that a host and its ranks exchange: the [Control] interface and its
// arguments, the [Report] of each window, and the [Histogram] in which a report counts
// latencies. It measures nothing, so the host and the offline tools share it without linking the
// measured runtime.
//
// The tag "bound" of a field says which values a rank can report; core/plugin/internal/accept
// checks it, and its documentation has the words. Numbers that recur: at most 1,024 entries in
// lists that a plugin fills, 1 to 256 bytes in names, 2^22 processes and threads (the kernel's
// PID_MAX_LIMIT), 2^14 processors, and 2^20 operations between two samples.
package record
