package ucxam

import (
	"time"

	"transportbench/core/transport"
)

// references has UCX's own benchmark, with one message at a time and with several. The last line of
// ucx_perftest -f -v has the iterations, the median and two mean latencies in microseconds one way,
// two bandwidths and two message rates. A figure may be "inf".
var references = []transport.Reference{
	perftest("ucp_am_lat", transport.DepthOne, transport.HalfRoundTrip, 1000,
		`(?m)^(?P<samples>\d+),(?P<value>[\d.]+)(,[0-9.a-z]+){6}\s*$`),
	perftest("ucp_am_bw", transport.DepthSeveral, transport.MessageRate, 1,
		`(?m)^(?P<samples>\d+)(,[0-9.a-z]+){6},(?P<value>[\d.]+)\s*$`),
}

func perftest(test string, depth transport.Depth, of transport.Quantity, unit float64,
	reading string,
) transport.Reference {
	return transport.Reference{
		Tool: "ucx_perftest", Package: "ucx-utils", Version: []string{"ucx_info", "-v"},
		Name: "ucx_perftest " + test, Depth: depth, Pad: 8, Takes: 120 * time.Millisecond,
		Server: []string{"-p", "{port}"},
		Client: []string{"-p", "{port}", "{address}", "-t", test, "-s", "{size}", "-n",
			"{messages}",
			"-w", "1000", "-f", "-v"},
		Environment: map[string]string{"UCX_TLS": "{tls}", "UCX_NET_DEVICES": "{net-devices}"},
		Reading:     reading, Quantity: of, Unit: unit,
	}
}

// reference returns the values for ucx_perftest: the transports and devices that the user allows,
// so that UCX chooses among the same ones for both.
func (s *settings) reference() map[string]string {
	return map[string]string{"tls": s.tlsInForce(), "net-devices": s.variables["NET_DEVICES"]}
}
