package main

import (
	"os"
	"strconv"
	"strings"

	"transportbench/core/transport"
)

const (
	name    = "unixgram"
	version = "0.1.0"

	maxPayload = 64 << 10
	maxPeers   = 1024
)

// schema is the transport's options.
var schema = []transport.Option{
	{
		Name: "batch", Type: transport.TypeInt, Default: "16", Min: 1, Max: 256,
		Help: "most datagrams that one Poll reads",
	},
}

// capabilities claims no more than the medium gives: the kernel keeps datagrams
// in order and loses none, but it copies them, and within one host only.
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

// inFlight is half of what the queue of a socket holds, which is one more than
// the sysctl says: the calls of one side and the replies to the other's must
// fit beside each other.
func inFlight() int {
	queue := 10 // the kernel's own default
	if text, err := os.ReadFile("/proc/sys/net/unix/max_dgram_qlen"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			queue = n
		}
	}
	return max((queue+1)/2, 1)
}
