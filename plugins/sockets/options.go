package sockets

import (
	"fmt"
	"slices"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/doublemap"
	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/sockets/internal/uring"
)

const (
	name = control.Name("sockets")

	maxPeers    = 1024
	maxInFlight = 1 << 16
	maxPayload  = 1 << 30
	maxPort     = 1<<16 - 1

	defaultAddress = "127.0.0.1"
)

var schema = []transport.Option{
	{
		Name: "network", Type: transport.TypeString, Default: networks[0].name,
		Allowed: networkNames(),
		Help: "tcp; unix, stream sockets of one host; or vsock, between virtual machines and " +
			"their host",
	},
	{
		Name: "engine", Type: transport.TypeString, Default: engineEpoll, Allowed: engineNames(),
		Help: "what moves bytes between sockets and memory: epoll is a send and a receive call " +
			"for each batch; uring is io_uring, which receives by itself (Linux 6.12 or later)",
	},
	{
		Name: "address", Type: transport.TypeString, Default: defaultAddress,
		Help: "IP address to listen on, or a network such as 10.0.0.0/24 for the address that " +
			"each host has in it (tcp)",
	},
	{
		Name: "port", Type: transport.TypeInt, Default: "0", Max: maxPort,
		Help: "port to listen on; worker n listens on port+n; 0 takes free ports (tcp, vsock)",
	},
	{
		Name: "cid", Type: transport.TypeInt, Default: "0", Max: 1<<32 - 2,
		Help: "context ID by which others reach this machine; 0 asks the kernel (vsock)",
	},
	{
		Name: "buffer", Type: transport.TypeSize, Default: "256KiB", Max: 1 << 30,
		Help: "bytes of each connection's two rings; those of two of the largest messages at " +
			"least, and a power of two",
	},
	{
		Name: "socket-buffer", Type: transport.TypeSize, Default: "0", Max: 1 << 30,
		Help: "bytes of each socket buffer; 0 lets the kernel choose",
	},
	{
		Name: "congestion-control", Type: transport.TypeString, Default: sock.DefaultCongestion(),
		Help: "congestion control of all sockets; empty for the kernel's default, which is not " +
			"pinned (tcp)",
	},
	{
		Name: "connect-timeout", Type: transport.TypeDuration, Default: "1m",
		Min: int64(10 * time.Millisecond), Max: int64(24 * time.Hour),
		Help: "a peer is lost if its socket is not connected after this time, counted while its " +
			"worker polls",
	},
	{
		Name: "timeout", Type: transport.TypeDuration, Default: "10s",
		Min: int64(10 * time.Millisecond), Max: int64(time.Hour),
		Help: "a peer is lost if its host answers nothing for this long, for example because the " +
			"link is down (tcp); connections of strangers are closed after this time",
	},
}

var capabilities = transport.Capabilities{Ordered: true, Waits: true, TellsPeerLost: true}

const (
	engineEpoll = "epoll"
	engineUring = "uring"
)

// enginesByName makes the engine of a worker, by the value of the option engine.
var enginesByName = map[string]func(w *worker) (engine, error){
	engineEpoll: newEpoll,
	engineUring: newUring,
}

func engineNames() []string { return []string{engineEpoll, engineUring} }

// settings is a [transport.Config], resolved and checked.
type settings struct {
	network        *network
	engine         string
	sock           sock.Options
	port           int
	cid            uint32
	connectTimeout time.Duration

	peers    int
	inFlight int
	payload  int // bytes of the largest message
	buffer   int // bytes of a ring
}

func resolve(cfg transport.Config) (*settings, error) {
	o := cfg.Options
	s := &settings{
		network: networkNamed(o.String("network")), engine: o.String("engine"),
		port: o.Int("port"), cid: uint32(o.Int("cid")),
		connectTimeout: o.Duration("connect-timeout"),
		sock: sock.Options{Congestion: o.String("congestion-control"),
			Buffer: o.Size("socket-buffer"), Timeout: o.Duration("timeout")},
	}
	if err := control.CheckLimits(cfg, Driver{}.Info().Limits); err != nil {
		return nil, err
	}
	if last := s.port + max(cfg.Workers, 1) - 1; s.port > 0 && last > maxPort {
		return nil,
			refuse("port", "%d workers take a port each, and the last would be %d; use %d or less",
				cfg.Workers, last, s.port-last+maxPort)
	}
	s.peers, s.inFlight, s.payload = max(cfg.Peers, 1), max(cfg.InFlight, 1), max(cfg.MaxPayload, 1)
	// A ring holds all calls in flight if they are small, even while the peer does not poll.
	s.buffer = pow2.Ceil(max(o.Size("buffer"), 2*(headerSize+s.payload), s.inFlight*smallMessage,
		doublemap.Unit))
	if s.engine == engineUring {
		if err := uring.Check(); err != nil {
			return nil, err
		}
	}
	return s, s.network.check(s, o)
}

// smallMessage is a header and a small payload.
const smallMessage = 64

func refuse(option, format string, args ...any) error {
	return &transport.OptionError{Option: option, Problem: fmt.Sprintf(format, args...)}
}

func networkNames() (names []string) {
	for i := range networks {
		names = append(names, networks[i].name)
	}
	return names
}

func networkNamed(name string) *network {
	return &networks[slices.IndexFunc(networks, func(n network) bool { return n.name == name })]
}

// checkIP resolves the options of TCP.
func (s *settings) checkIP(o transport.Values) (err error) {
	if err := s.onlyVsock(); err != nil {
		return err
	}
	if s.sock.Address, err = control.LocalAddress("address", o.String("address")); err != nil {
		return err
	}
	return sock.CheckCongestion("congestion-control", s.sock.Congestion)
}
