package ofi

import (
	"time"

	"transportbench/core/transport"
)

// pingPongArguments are the arguments of both ends of fi_pingpong.
var pingPongArguments = []string{"-p", "{provider}", "-e", "rdm", "-I", "{messages}", "-S",
	"{size}"}

// references has libfabric's own benchmark. It prints the columns bytes, #sent, #ack, total, time,
// MB/sec, usec/xfer and Mxfers/sec; the seventh is half a round trip.
var references = []transport.Reference{{
	Tool: "fi_pingpong", Package: "libfabric-bin", Version: []string{"fi_info", "--version"},
	Name: "fi_pingpong", Depth: transport.DepthOne, Pad: 1, Takes: 390 * time.Millisecond,
	Server: append(pingPongArguments[:len(pingPongArguments):len(pingPongArguments)], "-B",
		"{port}"),
	Client: append(pingPongArguments[:len(pingPongArguments):len(pingPongArguments)],
		"-P", "{port}", "{address}"),
	Reading:  `(?m)^\S+\s+(?P<samples>\d+k?)\s+=?\S+\s+\S+\s+\S+\s+[\d.]+\s+(?P<value>[\d.]+)\s+[\d.]+\s*$`,
	Quantity: transport.HalfRoundTrip, Unit: 1000,
}}
