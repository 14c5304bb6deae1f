package present

import (
	"fmt"
	"io"
	"time"

	"transportbench/core/lab/store/result"
)

// network writes what a network with impairments did to the packets of all windows.
func network(w io.Writer, r *result.Result) {
	if r.ImpairedBy != "" {
		fmt.Fprintf(w, "the network as asked for: %s, by: %s\n", r.Config.Network, r.ImpairedBy)
	}
	c, ok := r.Network()
	if !ok {
		return
	}
	fmt.Fprintf(w, "as measured: %d packets, %d dropped (%s), %d overflowed a queue, %d reordered",
		c.Packets, c.Dropped, share(c.Dropped, c.Packets), c.Overflowed, c.Reordered)
	if c.DelayNS > 0 {
		fmt.Fprintf(w, "; delivered after %v on average, %v of it late (at most %v)",
			mean(c.DelayNS, c.Delivered), mean(c.LateNS, c.Delivered), time.Duration(c.MaxLateNS).Round(time.Microsecond))
	}
	fmt.Fprint(w, "\n\n")
}

func share(part, whole uint64) string {
	return fmt.Sprintf("%.3g%%", 100*float64(part)/float64(max(whole, 1)))
}

func mean(ns, n uint64) time.Duration {
	return time.Duration(ns / max(n, 1)).Round(100 * time.Nanosecond)
}
