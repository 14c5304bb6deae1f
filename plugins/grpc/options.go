package grpc

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/transport"
)

const (
	name = control.Name("grpc")

	maxPayload  = 1 << 30
	maxPeers    = 1024
	maxInFlight = 1 << 16
	minWindow   = 64 << 10 // grpc-go ignores smaller windows
)

// Values of the options.
const (
	networkTCP    = "tcp"
	networkUnix   = "unix"
	callsStream   = "stream"
	callsUnary    = "unary"
	codecRaw      = "raw"
	codecProtobuf = "protobuf"
)

var schema = []transport.Option{
	{
		Name: "network", Type: transport.TypeString, Default: networkTCP,
		Allowed: []string{networkTCP, networkUnix},
		Help:    "tcp, or unix for stream sockets of this host, without a file",
	},
	{
		Name: "address", Type: transport.TypeString, Default: "127.0.0.1",
		Help: "IP address of this host, or a network such as 10.0.0.0/24 that has it, for " +
			"network=tcp",
	},
	{
		Name: "calls", Type: transport.TypeString, Default: callsStream,
		Allowed: []string{callsStream, callsUnary},
		Help: "stream: one bidirectional stream carries all messages of a connection; unary: " +
			"each call is a unary RPC",
	},
	{
		Name: "codec", Type: transport.TypeString, Default: codecRaw,
		Allowed: []string{codecRaw, codecProtobuf},
		Help:    "raw: a message is its bytes; protobuf: a message with one field of bytes",
	},
	{
		Name: "tls", Type: transport.TypeBool, Default: "false",
		Help: "encrypt with TLS 1.3; both sides verify the certificate in the other's address",
	},
	{
		Name: "stream-window", Type: transport.TypeSize, Default: "0", Min: 0, Max: math.MaxInt32,
		Help: "flow-control window of a stream, 64KiB or more; 0: 64 KiB, and adapted if " +
			"connection-window is 0 too",
	},
	{
		Name: "connection-window", Type: transport.TypeSize, Default: "0", Min: 0,
		Max: math.MaxInt32,
		Help: "flow-control window of a connection, 64KiB or more; 0: 64 KiB, and adapted if " +
			"stream-window is 0 too",
	},
	{
		Name: "write-buffer", Type: transport.TypeSize, Default: "32KiB", Min: 0, Max: 16 << 20,
		Help: "bytes that grpc-go collects before it writes to the socket; 0: it writes each " +
			"frame at once",
	},
	{
		Name: "read-buffer", Type: transport.TypeSize, Default: "32KiB", Min: 0, Max: 16 << 20,
		Help: "bytes that grpc-go reads from the socket at once, at most; 0: it reads each frame " +
			"on its own",
	},
	{
		Name: "max-streams", Type: transport.TypeInt, Default: "0", Min: 0, Max: math.MaxInt32,
		Help: "streams of a connection at the same time, which with calls=unary is calls; " +
			"0: no limit",
	},
	{
		Name: "stream-workers", Type: transport.TypeInt, Default: "0", Min: 0, Max: 1 << 12,
		Help: "goroutines that grpc-go keeps for incoming streams; 0: it starts one for each " +
			"stream",
	},
	{
		Name: "connect-timeout", Type: transport.TypeDuration, Default: "30s",
		Min: int64(100 * time.Millisecond), Max: int64(time.Hour),
		Help: "how long a peer may take to connect before it counts as lost",
	},
	{
		Name: "keepalive", Type: transport.TypeDuration, Default: "30s",
		Min: int64(10 * time.Second), Max: int64(time.Hour),
		Help: "silence of a peer after which grpc-go pings it",
	},
	{
		Name: "keepalive-timeout", Type: transport.TypeDuration, Default: "30s",
		Min: int64(time.Second), Max: int64(time.Hour),
		Help: "how long a pinged peer may be silent before it counts as lost",
	},
}

// settings are the options and sizes of a run.
type settings struct {
	network          string
	address          netip.Addr // of tcp
	unary            bool
	codec            codec
	tls              bool
	streamWindow     int32
	connectionWindow int32
	writeBuffer      int
	readBuffer       int
	maxStreams       uint32
	streamWorkers    uint32
	connectTimeout   time.Duration
	keepalive        time.Duration
	keepaliveTimeout time.Duration

	peers, inFlight, payload int
}

func resolve(cfg transport.Config) (*settings, error) {
	o := cfg.Options
	s := &settings{
		network: o.String("network"), unary: o.String("calls") == callsUnary,
		codec: codec{protobuf: o.String("codec") == codecProtobuf}, tls: o.Bool("tls"),
		streamWindow:     int32(o.Size("stream-window")),
		connectionWindow: int32(o.Size("connection-window")),
		writeBuffer:      o.Size("write-buffer"), readBuffer: o.Size("read-buffer"),
		maxStreams: uint32(o.Int("max-streams")), streamWorkers: uint32(o.Int("stream-workers")),
		connectTimeout: o.Duration("connect-timeout"), keepalive: o.Duration("keepalive"),
		keepaliveTimeout: o.Duration("keepalive-timeout"),
		peers:            max(cfg.Peers, 1), inFlight: max(cfg.InFlight, 1),
		payload: max(cfg.MaxPayload, 1),
	}
	for option, window := range map[string]int32{"stream-window": s.streamWindow,
		"connection-window": s.connectionWindow} {
		if window != 0 && window < minWindow {
			return nil, &transport.OptionError{Option: option, Problem: fmt.Sprintf(
				"%d is below 64KiB, which grpc-go would use instead; use 64KiB or more, or 0",
				window)}
		}
	}
	if err := control.CheckLimits(cfg, Driver{}.Info().Limits); err != nil {
		return nil, err
	}
	if s.unary && s.maxStreams > 0 && int(s.maxStreams) < s.inFlight {
		return nil, &transport.OptionError{Option: "max-streams", Problem: fmt.Sprintf(
			"%d is below the %d calls in flight on a connection, each of which is a stream; use "+
				"%[2]d or more, or 0", s.maxStreams, s.inFlight)}
	}
	if s.network == networkTCP {
		var err error
		if s.address, err = control.LocalAddress("address", o.String("address")); err != nil {
			return nil, err
		}
	}
	return s, nil
}

var capabilities = transport.Capabilities{Ordered: true, Waits: true, TellsPeerLost: true,
	Goroutines: true}

// capabilities returns the capabilities with these options. Unary calls run concurrently and may
// overtake each other.
func (s *settings) capabilities() transport.Capabilities {
	c := capabilities
	c.Ordered = !s.unary
	return c
}

func (s *settings) limits() transport.Limits {
	return transport.Limits{MaxPayload: s.payload, Peers: maxPeers, InFlight: maxInFlight}
}

// messageLimit is the largest message that grpc-go receives: payload, header and the codec's
// overhead. grpc-go's default is 4 MiB.
func (s *settings) messageLimit() int { return s.payload + headerSize + codecOverhead }

// notes are the settings that a result shows.
func (s *settings) notes() map[string]string {
	window := func(n int32) string {
		if s.streamWindow == 0 && s.connectionWindow == 0 {
			return "adaptive"
		}
		// grpc-go adapts neither window if one is set
		return transport.FormatSize(int64(max(n, minWindow)))
	}
	n := map[string]string{
		"windows": fmt.Sprintf("stream %s, connection %s", window(s.streamWindow),
			window(s.connectionWindow)),
		"buffers": fmt.Sprintf("write %s, read %s", transport.FormatSize(int64(s.writeBuffer)),
			transport.FormatSize(int64(s.readBuffer))),
	}
	if s.network == networkTCP {
		n["address"] = s.address.String()
	}
	return n
}

// layout identifies what must be equal on both sides of a connection.
func (s *settings) layout() string {
	calls, security := callsStream, "plain"
	if s.unary {
		calls = callsUnary
	}
	if s.tls {
		security = "tls"
	}
	return strings.Join([]string{s.network, calls, s.codec.Name(), security}, "+")
}

func (s *settings) medium() string {
	if s.network == networkTCP {
		return transport.MediumTCP
	}
	return transport.MediumUnix
}

// integrity names the checks of payloads.
func (s *settings) integrity() string {
	switch {
	case s.tls:
		return "TLS's authentication of each record"
	case s.network == networkTCP:
		return "TCP's checksum"
	default:
		return "none"
	}
}
