package clock

import "time"

var start = time.Now()

// Now returns the nanoseconds since the process started. It is monotonic and does not
// allocate.
func Now() int64 { return int64(time.Since(start)) }
