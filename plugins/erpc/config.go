package erpc

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

const (
	name    = "erpc"
	version = "0.1.0"

	maxPeers    = 1 << 14
	maxInFlight = 1 << 16
	maxWindow   = 4096

	// What nobody asked for.
	leastWindow  = 8
	mostWindow   = 1024
	leastCredits = 32
)

// Providers of datagrams.
const (
	providerAuto  = "auto"
	providerUDP   = "udp"
	providerVerbs = "verbs"
	providerSoft  = "soft"
)

// Congestion control.
const (
	congestionTimely = "timely"
	congestionNone   = "none"
)

// million is the unit of the options that are parts of one.
const million = 1_000_000

// schema is the transport's options.
var schema = []transport.Option{
	{
		Name: "provider", Type: transport.TypeString, Default: providerAuto,
		Allowed: []string{providerAuto, providerUDP, providerVerbs, providerSoft},
		Help:    "udp is kernel sockets, verbs unreliable datagram (UD) queue pairs of an RDMA device, soft the same of a software device over shared memory of this host; auto is verbs where a device has an active port and else udp, and says what it took",
	},
	{
		Name: "address", Type: transport.TypeString, Default: "127.0.0.1",
		Help: "udp: IP address that a rank's sockets are bound to, or a network such as 10.0.0.0/24, for the address that each host has there",
	},
	{
		Name: "udp-port", Type: transport.TypeInt, Default: "0", Max: 65535,
		Help: "udp: port of the rank's heartbeats, the workers have those after it; for ranks with addresses of their own. 0 takes any that are free",
	},
	{
		Name: "send-buffer", Type: transport.TypeSize, Default: "4MiB", Min: 4096, Max: 1 << 30,
		Help: "udp: bytes of a socket's send buffer; the kernel may grant less (net.core.wmem_max)",
	},
	{
		Name: "receive-buffer", Type: transport.TypeSize, Default: "4MiB", Min: 4096, Max: 1 << 30,
		Help: "udp: bytes of a socket's receive buffer; the kernel may grant less (net.core.rmem_max)",
	},
	{
		Name: "offload", Type: transport.TypeString, Default: string(datagram.OffloadAuto),
		Allowed: []string{string(datagram.OffloadAuto), string(datagram.OffloadOn), string(datagram.OffloadOff)},
		Help:    "udp: hand the kernel several datagrams as one (UDP_SEGMENT) and take several as one (UDP_GRO)",
	},
	{
		Name: "busy-poll", Type: transport.TypeDuration, Default: "0s", Max: int64(time.Second),
		Help: "udp: how long the kernel polls the network device when there is nothing to receive (SO_BUSY_POLL); of no use on the loopback",
	},
	{
		Name: "device", Type: transport.TypeString, Default: "",
		Help: "verbs: RDMA device, such as mlx5_0; empty for the first with an active port",
	},
	{
		Name: "port", Type: transport.TypeInt, Default: "0", Max: 255,
		Help: "verbs: port of the device, from 1; 0 for the first active one",
	},
	{
		Name: "gid-index", Type: transport.TypeInt, Default: "-1", Min: -1, Max: 1023,
		Help: "verbs: entry of the port's GID table; -1 for RoCE version 2 with an IPv4 address where there is one",
	},
	{
		Name: "mtu", Type: transport.TypeSize, Default: "0", Max: datagram.UDPMaxMTU,
		Help: "bytes of a datagram, the 16 of the header among them; 0 is the most that the device takes. The same at all ranks",
	},
	{
		Name: "batch", Type: transport.TypeInt, Default: "64", Min: 1, Max: 1024,
		Help: "datagrams that are sent, or received, at once",
	},
	{
		Name: "window", Type: transport.TypeInt, Default: "0", Max: maxWindow,
		Help: "slots of a session, a power of two: calls on their way at once; more wait in the backlog. eRPC has 8; 0 fits the calls in flight, from 8 to 1024. The same at all ranks",
	},
	{
		Name: "credits", Type: transport.TypeInt, Default: "0", Max: 1 << 16,
		Help: "packets of a session on their way at once, a request that the server has not answered among them; eRPC has 32; 0 is 32, or the calls in flight where they are more",
	},
	{
		Name: "checksum", Type: transport.TypeString, Default: checkAll, Allowed: []string{checkAll, checkHeader},
		Help: "what a packet's check, a CRC-32, covers: all of it, or its header only, where the medium can be trusted with the rest. The same at all ranks",
	},
	{
		Name: "rto", Type: transport.TypeDuration, Default: "5ms", Min: int64(10 * time.Microsecond), Max: int64(time.Minute),
		Help: "retransmission timeout: a slot without progress for so long sends again what was not answered",
	},
	{
		Name: "rto-backoff", Type: transport.TypeInt, Default: "4", Max: 10,
		Help: "how often in a row the timeout of a slot without progress doubles",
	},
	{
		Name: "congestion", Type: transport.TypeString, Default: congestionTimely, Allowed: []string{congestionTimely, congestionNone},
		Help: "congestion control: timely paces a session's packets at a rate that follows their round trips",
	},
	{
		Name: "link-rate", Type: transport.TypeSize, Default: "0", Max: 1 << 40,
		Help: "timely: bytes per second that a session begins with and never exceeds; 0 is 12GiB for verbs, 10GiB for the others",
	},
	{
		Name: "timely-least-rate", Type: transport.TypeSize, Default: "15000000", Min: 1000, Max: 1 << 40,
		Help: "timely: bytes per second that a session never falls below",
	},
	{
		Name: "timely-step", Type: transport.TypeSize, Default: "0", Max: 1 << 40,
		Help: "timely: additive increase of the rate in bytes per second; 0 is 5000000 for verbs, ten times as much for the others",
	},
	{
		Name: "timely-min-rtt", Type: transport.TypeDuration, Default: "0s", Max: int64(time.Minute),
		Help: "timely: least round trip; 0 is 2us for verbs, 1ms for the others",
	},
	{
		Name: "timely-low", Type: transport.TypeDuration, Default: "0s", Max: int64(time.Minute),
		Help: "timely: round trips below this always raise the rate; 0 is 50us for verbs, 10ms for the others",
	},
	{
		Name: "timely-high", Type: transport.TypeDuration, Default: "0s", Max: int64(time.Minute),
		Help: "timely: round trips above this always lower the rate; 0 is 1ms for verbs, 50ms for the others",
	},
	{
		Name: "timely-alpha", Type: transport.TypeInt, Default: "460000", Min: 1, Max: million,
		Help: "timely: weight of a new difference of round trips in the smoothed one, in millionths",
	},
	{
		Name: "timely-beta", Type: transport.TypeInt, Default: "260000", Min: 1, Max: million,
		Help: "timely: strength of multiplicative decreases, in millionths",
	},
	{
		Name: "timely-hyper", Type: transport.TypeInt, Default: "5", Min: 1, Max: 1 << 20,
		Help: "timely: after so many falling round trips in a row the step is five times as large",
	},
	{
		Name: "wheel-place", Type: transport.TypeDuration, Default: "500ns", Min: 100, Max: int64(time.Second),
		Help: "time that a place of the pacing wheel covers",
	},
	{
		Name: "keepalive", Type: transport.TypeDuration, Default: "250ms", Min: int64(time.Millisecond), Max: int64(time.Hour),
		Help: "how often a rank asks those that it is connected to whether they live",
	},
	{
		Name: "peer-timeout", Type: transport.TypeDuration, Default: "5s", Min: int64(time.Millisecond), Max: int64(24 * time.Hour),
		Help: "a peer whose process does not answer for so long is lost; at least three times keepalive",
	},
	{
		Name: "connect-timeout", Type: transport.TypeDuration, Default: "1m", Min: int64(time.Millisecond), Max: int64(24 * time.Hour),
		Help: "a peer that does not answer the handshake for so long, in which its worker polls, is lost",
	},
	faultOption("drop", "of not being sent, or not being received"),
	faultOption("duplicate", "of being there twice"),
	faultOption("reorder", "of changing places with the next"),
	faultOption("corrupt", "of damage"),
	faultOption("delay", "of being held for fault-delay-by"),
	{
		Name: "fault-delay-by", Type: transport.TypeDuration, Default: "1ms", Max: int64(time.Minute),
		Help: "fault injection: how long a delayed datagram is held",
	},
	{
		Name: "fault-seed", Type: transport.TypeInt, Default: "1",
		Help: "fault injection: which faults there are; each rank and worker has some of its own",
	},
}

func faultOption(what, chance string) transport.Option {
	return transport.Option{Name: "fault-" + what, Type: transport.TypeInt, Default: "0", Max: million,
		Help: "fault injection: a datagram's chance " + chance + ", in millionths, when it is sent and again when it is received"}
}

// What a check covers.
const (
	checkAll    = "all"
	checkHeader = "header"
)

// settings is a transport.Config resolved to what the code works with.
type settings struct {
	rank     int
	workers  int
	peers    int
	inFlight int // calls on one connection, in the backlog too
	payload  int // bytes of the largest

	provider string // udp, verbs or soft
	auto     string // why it is what it is, where nobody asked for it
	udp      datagram.UDPOptions
	address  string // udp
	port     int    // udp: of heartbeats; 0 for any
	device   rdma.Options
	mtu      int
	batch    int
	faults   datagram.Faults

	window     int
	credits    int
	checkAll   bool
	rto        int64
	backoff    int
	timely     bool
	congestion timelyParameters
	place      int64
	keepalive  time.Duration
	silence    int   // heartbeats without an answer that make a peer lost
	patience   int64 // with a handshake
}

func resolve(cfg transport.Config) (settings, error) {
	o := cfg.Options
	s := settings{
		rank: cfg.Rank, workers: cfg.Workers, peers: max(cfg.Peers, 1), inFlight: max(cfg.InFlight, 1), payload: max(cfg.MaxPayload, 1),
		provider: o.String("provider"), address: o.String("address"), port: o.Int("udp-port"), mtu: o.Size("mtu"), batch: o.Int("batch"),
		udp: datagram.UDPOptions{MTU: o.Size("mtu"), Batch: o.Int("batch"), SendBuffer: o.Size("send-buffer"),
			ReceiveBuffer: o.Size("receive-buffer"), Offload: datagram.Offload(o.String("offload")), BusyPoll: o.Duration("busy-poll")},
		device: rdma.Options{Device: o.String("device"), Port: o.Int("port"), GIDIndex: o.Int("gid-index")},
		window: o.Int("window"), credits: o.Int("credits"), checkAll: o.String("checksum") == checkAll,
		rto: int64(o.Duration("rto")), backoff: o.Int("rto-backoff"), timely: o.String("congestion") == congestionTimely,
		place: int64(o.Duration("wheel-place")), keepalive: o.Duration("keepalive"),
		patience: int64(o.Duration("connect-timeout")),
	}
	part := func(option string) float64 { return float64(o.Int(option)) / million }
	s.faults = datagram.Faults{Drop: part("fault-drop"), Duplicate: part("fault-duplicate"), Reorder: part("fault-reorder"),
		Corrupt: part("fault-corrupt"), Delay: part("fault-delay"), DelayBy: o.Duration("fault-delay-by"), Seed: uint64(o.Int("fault-seed"))}
	if s.window == 0 {
		s.window = min(max(powerOfTwo(s.inFlight), leastWindow), mostWindow)
	}
	if s.credits == 0 {
		s.credits = max(leastCredits, s.inFlight)
	}
	timeout := o.Duration("peer-timeout")
	s.silence = int(timeout / s.keepalive)
	switch {
	case cfg.MaxPayload > maxMessage:
		return s, fmt.Errorf("%w: %d bytes, and the limit is %d", transport.ErrTooLarge, cfg.MaxPayload, maxMessage)
	case cfg.Peers > maxPeers:
		return s, fmt.Errorf("%w: %d peers of one worker, and the limit is %d", transport.ErrUnsupported, cfg.Peers, maxPeers)
	case cfg.InFlight > maxInFlight:
		return s, fmt.Errorf("%w: %d calls in flight on one connection, and the limit is %d", transport.ErrUnsupported, cfg.InFlight, maxInFlight)
	case bits.OnesCount(uint(s.window)) != 1:
		return s, &transport.OptionError{Option: "window", Problem: fmt.Sprintf("%d is not a power of two; %d is the next", s.window, powerOfTwo(s.window))}
	case s.mtu != 0 && s.mtu < leastMTU:
		return s, &transport.OptionError{Option: "mtu", Problem: fmt.Sprintf("%d is below %d", s.mtu, leastMTU)}
	case s.silence < 3:
		return s, &transport.OptionError{Option: "peer-timeout", Problem: fmt.Sprintf("%v is less than three times keepalive, %v", timeout, s.keepalive)}
	}
	if s.port != 0 && s.port+cfg.Workers > 65535 {
		return s, &transport.OptionError{Option: "udp-port", Problem: fmt.Sprintf("%d and %d more for the workers are over 65535", s.port, cfg.Workers)}
	}
	if err := s.chooseProvider(); err != nil {
		return s, err
	}
	return s, s.resolveTimely(o)
}

// leastMTU has room for the packets of the handshake.
const leastMTU = 64

// chooseProvider settles which one it is, and what only that one has.
func (s *settings) chooseProvider() error {
	if s.provider == providerAuto {
		s.provider = providerVerbs
		probe := s.device
		probe.Provider = rdma.Verbs
		device, err := rdma.Open(probe)
		if err != nil {
			s.provider, s.auto = providerUDP, "udp, since verbs are "+strings.TrimPrefix(err.Error(), "rdma: ")
		} else if err := device.Close(); err != nil {
			return err
		}
	}
	if s.provider != providerUDP {
		s.device.Provider = rdma.Verbs
		if s.provider == providerSoft {
			s.device.Provider = rdma.Soft
		}
	}
	return nil
}

func (s *settings) resolveTimely(o transport.Values) error {
	// Between threads of a host, a round trip is as long as one of them is moved aside.
	defaults := timelyParameters{minRTT: 2e3, low: 50e3, high: 1e6, step: 5e6, link: 12 << 30}
	if s.provider != providerVerbs {
		defaults = timelyParameters{minRTT: 1e6, low: 10e6, high: 50e6, step: 50e6, link: 10 << 30}
	}
	orDefault := func(value, fallback float64) float64 {
		if value == 0 {
			return fallback
		}
		return value
	}
	s.congestion = timelyParameters{
		minRTT: orDefault(float64(o.Duration("timely-min-rtt")), defaults.minRTT),
		low:    orDefault(float64(o.Duration("timely-low")), defaults.low),
		high:   orDefault(float64(o.Duration("timely-high")), defaults.high),
		link:   orDefault(float64(o.Size("link-rate")), defaults.link),
		least:  float64(o.Size("timely-least-rate")), step: orDefault(float64(o.Size("timely-step")), defaults.step),
		alpha: float64(o.Int("timely-alpha")) / million, beta: float64(o.Int("timely-beta")) / million, hyper: o.Int("timely-hyper"),
	}
	switch c := &s.congestion; {
	case c.low > c.high:
		return &transport.OptionError{Option: "timely-low", Problem: fmt.Sprintf("%v is over timely-high, %v", time.Duration(c.low), time.Duration(c.high))}
	case c.least > c.link:
		return &transport.OptionError{Option: "timely-least-rate", Problem: fmt.Sprintf("%.0f is over the link's rate, %.0f", c.least, c.link)}
	}
	return nil
}

// Bounds of what a worker takes that grows by the product of options.
const (
	maxEntries    = 1 << 22 // of a pacing wheel
	maxTimestamps = 1 << 25 // of a session
)

// fits says whether the options, each in its bounds, are too much together.
func (s *settings) fits(credits, unit int) error {
	if most := maxEntries / wheelEntries(s.peers, 1); credits > most {
		return &transport.OptionError{Option: "credits", Problem: fmt.Sprintf(
			"%d for each of %d peers are more packets than the pacing wheel holds, which is %d; %d is the most", credits, s.peers, maxEntries, most)}
	}
	if most := maxTimestamps / s.timestamps(credits, unit); s.window > most {
		return &transport.OptionError{Option: "window", Problem: fmt.Sprintf(
			"%d slots of %d packets each take more than %d timestamps; %d is the most, or set mtu higher or credits lower",
			s.window, s.timestamps(credits, unit), maxTimestamps, powerOfTwo(most+1)/2)}
	}
	return nil
}

// timestamps is how many packets of a call can be on their way at once.
func (s *settings) timestamps(credits, unit int) int {
	return min(credits, 2*packetsOf(s.payload, unit)-1)
}

// limits are those of the open transport, whose packets carry unit bytes of data.
func (s *settings) limits(unit int) transport.Limits {
	return transport.Limits{MaxPayload: s.payload, InlineSize: min(unit, s.payload), InFlight: s.inFlight, Peers: maxPeers}
}

// powerOfTwo rounds up.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
