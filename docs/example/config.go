package main

import (
	"errors"
	"net/netip"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

const (
	name    = control.Name("framed")
	version = "0.1.0"

	maxPayload = 256 << 20
	maxPeers   = 1024
	// smallFrame is the size of a frame with a small payload.
	smallFrame = 128
)

// schema has the transport's options.
var schema = []transport.Option{
	{
		Name: "address", Type: transport.TypeString, Default: "127.0.0.1",
		Help: "IP address to listen on, or a network such as 10.0.0.0/24 for the address that " +
			"each host has in it",
	},
	{
		Name: "connect-timeout", Type: transport.TypeDuration, Default: "1m",
		Min: int64(10 * time.Millisecond), Max: int64(24 * time.Hour),
		Help: "a peer is lost if it is not connected after this time",
	},
	{
		Name: "timeout", Type: transport.TypeDuration, Default: "10s",
		Min: int64(10 * time.Millisecond), Max: int64(time.Hour),
		Help: "a peer is lost if its host answers nothing for this long",
	},
}

// roles names the options that mean something to the host.
var roles = transport.Roles{Address: "address"}

// capabilities has what TCP provides: frames arrive in order, and a connection ends with the
// process of its other side.
var capabilities = transport.Capabilities{
	Ordered:       true,
	TellsPeerLost: true,
}

// references has the benchmark for runs with several calls in flight. The host knows one of TCP for
// runs with one call.
var references = []transport.Reference{{
	Tool: "sockperf", Package: "sockperf", Version: []string{"sockperf", "--version"},
	Name: "sockperf throughput", Depth: transport.DepthSeveral,
	Pad: 14, MaxPayload: 65507, // its own header, and the largest message that it sends
	Server:   []string{"server", "--tcp", "-i", "{address}", "-p", "{port}"},
	Client:   []string{"throughput", "--tcp", "-i", "{address}", "-p", "{port}", "-m", "{size}"},
	Takes:    3 * time.Second,
	Reading:  `(?s)Total of (?P<samples>\d+) messages.*Message Rate is (?P<value>\d+)`,
	Quantity: transport.MessageRate, Unit: 1,
}}

// settings is a [transport.Config] that was checked.
type settings struct {
	sockets        sock.Options
	connectTimeout time.Duration
	peers          int
	payload        int // bytes of the largest payload
	buffer         int // bytes of a connection's buffer in each direction
}

func resolve(cfg transport.Config) (s settings, err error) {
	s = settings{
		sockets: sock.Options{Congestion: sock.DefaultCongestion(),
			Timeout: cfg.Options.Duration("timeout")},
		connectTimeout: cfg.Options.Duration("connect-timeout"),
		peers:          max(cfg.Peers, 1),
		payload:        max(cfg.MaxPayload, 1),
	}
	// All calls in flight fit if they are small, and so does the largest.
	s.buffer = max(2*(headerSize+s.payload), cfg.InFlight*smallFrame)
	s.sockets.Address, err = control.LocalAddress("address", cfg.Options.String("address"))
	return s, err
}

// encode returns the address of a worker: its nonce, and where it listens.
func encode(nonce []byte, at netip.AddrPort) []byte { return append(nonce, at.String()...) }

// decode is the reverse of encode.
func decode(address []byte) (nonce dial.Nonce, at netip.AddrPort, err error) {
	if len(address) < dial.NonceSize {
		return nonce, at, errors.New("not an address of this transport")
	}
	at, err = netip.ParseAddrPort(string(address[dial.NonceSize:]))
	return dial.Nonce(address[:dial.NonceSize]), at, err
}
