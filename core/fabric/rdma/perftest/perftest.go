package perftest

import (
	"strconv"
	"strings"
	"time"

	"transportbench/core/transport"
)

// What the programs print: #bytes, #iterations, t_min, t_max, t_typical (half of a round trip, in
// microseconds, unless the operation fetches) and more; or #bytes, #iterations, peak and average
// bandwidth, and millions of messages per second.
const (
	latency = `(?m)^\s*\d+\s+(?P<samples>\d+)\s+[\d.]+\s+[\d.]+\s+(?P<value>[\d.]+)\s+[\d.]+\s+[\d.]+`
	rate    = `(?m)^\s*\d+\s+(?P<samples>\d+)\s+[\d.]+\s+[\d.]+\s+(?P<value>[\d.]+)\s*$`
)

// Program returns a program without its arguments; ok is false if the name is not that of one.
func Program(name string) (r transport.Reference, ok bool) {
	r = transport.Reference{
		Tool: name, Package: "perftest", Version: []string{name, "--version"}, Name: name,
		Depth: transport.DepthAny, Takes: 300 * time.Millisecond,
		Reading: latency, Quantity: transport.HalfRoundTrip, Unit: 1000,
	}
	if strings.HasSuffix(name, "_bw") {
		r.Reading, r.Quantity, r.Unit = rate, transport.MessageRate, 1e6
	}
	return r, strings.HasPrefix(name, "ib_")
}

// References returns the programs that measure an operation: ib_write_lat and ib_write_bw for
// "ib_write". arguments are for both. Device returns the values of their placeholders.
func References(operation string, arguments ...string) (list []transport.Reference) {
	for _, suffix := range []string{"_lat", "_bw"} {
		r, _ := Program(operation + suffix)
		r.Medium, r.Depth, r.Pad = transport.MediumVerbs, transport.DepthOne, 2
		r.Server = append([]string{"--port={port}", "--size={size}", "--iters=5000", "--CPU-freq"},
			arguments...)
		if suffix == "_bw" {
			r.Depth = transport.DepthSeveral
			r.Server = append(r.Server, "--tx-depth={in-flight}")
		}
		r.Server = append(r.Server, "--ib-dev={ib-dev}", "--ib-port={ib-port}",
			"--gid-index={gid-index}")
		r.Client = append(r.Server[:len(r.Server):len(r.Server)], "{address}")
		list = append(list, r)
	}
	return list
}

// Device returns the values of placeholders for the port of a device that a transport opened.
// Without the index of a GID, perftest leaves out the header that only packets over Ethernet have.
func Device(port transport.Path) map[string]string {
	values := map[string]string{"ib-dev": port.Device, "ib-port": strconv.Itoa(port.Port),
		"gid-index": ""}
	if port.Facts[transport.FactLinkLayer] == transport.LinkEthernet {
		values["gid-index"] = port.Facts[transport.FactGIDIndex]
	}
	return values
}
