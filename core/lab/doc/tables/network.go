package tables

import (
	"fmt"
	"time"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/result"
)

// network writes what a network with impairments did to the packets of all windows.
func network(out *doc.Doc, r *result.Result) {
	if r.ImpairedBy != "" {
		out.Line("the network as asked for: %s, by: %s", r.Config.Network, r.ImpairedBy)
	}
	c, ok := r.Network()
	if !ok {
		return
	}
	text := fmt.Sprintf(
		"as measured: %d packets, %d dropped (%s), %d overflowed a queue, %d reordered", c.Packets,
		c.Dropped, share(c.Dropped, c.Packets), c.Overflowed, c.Reordered)
	if c.DelayNS > 0 {
		text += fmt.Sprintf("; delivered after %v on average, %v of it late (at most %v)",
			mean(c.DelayNS, c.Delivered), mean(c.LateNS, c.Delivered),
			time.Duration(c.MaxLateNS).Round(time.Microsecond))
	}
	out.Line(text)
	out.Gap()
}

func share(part, whole uint64) string {
	return fmt.Sprintf("%.3g%%", 100*float64(part)/float64(max(whole, 1)))
}

func mean(ns, n uint64) time.Duration {
	return time.Duration(ns / max(n, 1)).Round(100 * time.Nanosecond)
}
