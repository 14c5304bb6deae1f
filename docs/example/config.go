package main

import (
	"os"
	"strconv"
	"strings"

	"transportbench/core/fabric/control"
	"transportbench/core/transport"
)

const (
	name    = control.Name("unixgram")
	version = "0.1.0"

	maxPayload = 64 << 10
	maxPeers   = 1024
)

// schema has the transport's options.
var schema = []transport.Option{
	{
		Name: "batch", Type: transport.TypeInt, Default: "16", Min: 1, Max: 256,
		Help: "maximum number of datagrams that one Poll reads",
	},
}

// capabilities has what the kernel provides: datagrams arrive in order, and a socket whose
// process has died refuses them.
var capabilities = transport.Capabilities{
	Ordered:       true,
	TellsPeerLost: true,
}

func limits() transport.Limits {
	return transport.Limits{
		MaxPayload: maxPayload,
		InlineSize: maxPayload, // header and payload are one datagram
		InFlight:   inFlight(),
		Peers:      maxPeers,
	}
}

// inFlight returns half the capacity of a socket's queue, because the calls of one side and the
// replies to the other's calls share it. The capacity is one more than the sysctl says.
func inFlight() int {
	queue := 10 // the kernel's default
	if text, err := os.ReadFile("/proc/sys/net/unix/max_dgram_qlen"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			queue = n
		}
	}
	return max((queue+1)/2, 1)
}
