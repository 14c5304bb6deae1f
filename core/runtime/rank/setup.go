package rank

import (
	"context"
	"slices"
	"time"

	"transportbench/core/base/carrier"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// connects are the calls of Connect that one polling thread made.
type connects struct{ count, sum, longest uint64 }

func (c *connects) add(took time.Duration) {
	ns := nanoseconds(took)
	c.count, c.sum, c.longest = c.count+1, c.sum+ns, max(c.longest, ns)
}

// nanoseconds returns a time of which something was done, so at least 1.
func nanoseconds(d time.Duration) uint64 { return uint64(max(d, 1)) }

// setupReport returns what the setup took, once: with the report of the first window.
func (r *Rank) setupReport() *record.RankSetup {
	if r.setup == nil {
		return nil
	}
	s := r.setup
	r.setup = nil
	s.ReadRegistrations(r.transport)
	var first []uint64
	for _, t := range r.threads {
		s.Connections += t.connects.count
		s.ConnectNS += t.connects.sum
		s.ConnectMaxNS = max(s.ConnectMaxNS, t.connects.longest)
		if t.client != nil {
			first = append(first, t.client.FirstCalls()...)
		}
	}
	if n := len(first); n > 0 {
		slices.Sort(first)
		s.FirstCalls, s.FirstCallNS, s.FirstCallMaxNS = uint64(n), (first[(n-1)/2]+first[n/2])/2,
			first[n-1]
	}
	return s
}

// paths returns what carries the bytes of the rank's workers. Workers whose thread no longer
// answers are left out.
func (r *Rank) paths(ctx context.Context) []transport.Path {
	var stated []transport.Path
	for _, t := range r.threads {
		reader, ok := t.worker.(transport.PathReader)
		if !ok || t.client != nil && r.plan.Config.Proxied() { // a link of this rank
			continue
		}
		list, err := get(ctx, t, func() ([]transport.Path, error) {
			return reader.ReadPaths(nil),
				nil
		})
		if err == nil {
			stated = append(stated, list...)
		}
	}
	return carrier.Describe(stated)
}
