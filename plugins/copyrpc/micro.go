package copyrpc

import (
	"context"
	"time"

	"transportbench/core/fabric/rdma/rdmaperf"
	"transportbench/core/transport"
)

var _ transport.Microbenchmarker = Driver{}

// Microbenchmarks implements [transport.Microbenchmarker].
func (Driver) Microbenchmarks() []string { return rdmaperf.Names() }

// postlist is how many requests the measurements of rates with postlists post at once.
const postlist = 16

// Microbenchmark implements [transport.Microbenchmarker]: it measures the RDMA device
// that the options name.
func (Driver) Microbenchmark(ctx context.Context, options transport.Values, wanted func(string) bool, d time.Duration, report func(transport.Measurement) error) error {
	s, err := resolve(transport.Config{Options: options})
	if err != nil {
		return transport.NewOpError(name, "micro", err)
	}
	o := rdmaperf.Options{Device: s.device, MTU: s.connect.MTU, Inline: s.inline, Postlist: min(postlist, s.depth/2), Depth: s.depth, Duration: d}
	err = rdmaperf.Run(ctx, o, wanted, func(r rdmaperf.Reading) error {
		return report(transport.Measurement{Name: r.Name, Size: r.Size, Latency: r.Latency, Rate: r.Rate, Bandwidth: r.Bandwidth, Samples: r.Samples})
	})
	if err != nil {
		return transport.NewOpError(name, "micro", err)
	}
	return nil
}
