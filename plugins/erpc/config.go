package erpc

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/datagram/faulty"
	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
	"transportbench/core/transport"
)

const (
	maxPeers    = 1 << 14
	maxInFlight = 1 << 16
	maxWindow   = 4096
	minMTU      = 64 // has room for the packets of the handshake
)

// Values of the option provider.
const (
	providerAuto  = "auto"
	providerUDP   = "udp"
	providerVerbs = "verbs"
	providerSoft  = "soft"
)

// media has the medium of each provider.
var media = map[string]string{
	providerUDP: transport.MediumUDP, providerVerbs: transport.MediumVerbs,
	providerSoft: transport.MediumMemory,
}

// Values of the option congestion.
const (
	congestionTimely = "timely"
	congestionNone   = "none"
)

// Values of the option checksum.
const (
	checkAll    = "all"
	checkHeader = "header"
)

// million is the unit of the options that are fractions.
const million = 1_000_000

// schema is the transport's options.
var schema = []transport.Option{
	{Name: "provider", Type: transport.TypeString, Default: providerAuto,
		Allowed: []string{providerAuto, providerUDP, providerVerbs, providerSoft},
		Help: "datagrams of kernel sockets (udp), of unreliable datagram (UD) queue pairs of " +
			"an RDMA device (verbs), or of UD queue pairs of a software device over this host's " +
			"shared memory (soft); auto takes verbs if a device has an active port and udp " +
			"otherwise, and logs its choice"},
	{Name: "address", Type: transport.TypeString, Default: "127.0.0.1",
		Help: "udp: IP address of a rank's sockets, or a network such as 10.0.0.0/24 for each " +
			"host's address in it"},
	{Name: "udp-port", Type: transport.TypeInt, Default: "0", Max: 65535,
		Help: "udp: port of a rank's heartbeat; the workers use the ports after it. Set it only " +
			"if each rank has an address of its own; 0 takes any free ports"},
	{Name: "send-buffer", Type: transport.TypeSize, Default: "4MiB", Min: 4096, Max: 1 << 30,
		Help: "udp: bytes of a socket's send buffer; the kernel may grant less " +
			"(net.core.wmem_max)"},
	{Name: "receive-buffer", Type: transport.TypeSize, Default: "4MiB", Min: 4096, Max: 1 << 30,
		Help: "udp: bytes of a socket's receive buffer; the kernel may grant less " +
			"(net.core.rmem_max)"},
	{Name: "offload", Type: transport.TypeString, Default: string(datagram.OffloadAuto),
		Allowed: []string{string(datagram.OffloadAuto), string(datagram.OffloadOn),
			string(datagram.OffloadOff)},
		Help: "udp: pass several datagrams to the kernel as one (UDP_SEGMENT), for which short " +
			"ones get one length, and receive several as one (UDP_GRO)"},
	{Name: "busy-poll", Type: transport.TypeDuration, Default: "0s", Max: int64(time.Second),
		Help: "udp: how long the kernel polls the network device when nothing has arrived " +
			"(SO_BUSY_POLL); no effect on the loopback"},
	{Name: "device", Type: transport.TypeString, Default: "",
		Help: "verbs: RDMA device, such as mlx5_0; empty takes the first with an active port"},
	{Name: "port", Type: transport.TypeInt, Default: "0", Max: 255,
		Help: "verbs: port of the device, from 1; 0 takes the first active one"},
	{Name: "gid-index", Type: transport.TypeInt, Default: "-1", Min: -1, Max: 1023,
		Help: "verbs: index into the port's GID table; -1 prefers RoCE version 2 with an IPv4 " +
			"address"},
	{Name: "mtu", Type: transport.TypeSize, Default: "0", Max: datagram.UDPMaxMTU,
		Help: "bytes of a datagram, including the header's 16; 0 is the most that the device " +
			"takes. Must be the same at all ranks"},
	{Name: "batch", Type: transport.TypeInt, Default: "64", Min: 1, Max: 1024,
		Help: "datagrams sent or received at once"},
	{Name: "window", Type: transport.TypeInt, Default: "0", Max: maxWindow,
		Help: "slots of a session, a power of two: calls in flight at once; more wait in the " +
			"backlog. eRPC has 8; 0 fits the calls in flight, from 8 to 1024. Must be the same " +
			"at all ranks"},
	{Name: "credits", Type: transport.TypeInt, Default: "0", Max: 1 << 16,
		Help: "packets of a session in flight at once, including requests that the server has " +
			"not answered yet; eRPC has 32; 0 is 32, or the calls in flight if they are more"},
	{Name: "checksum", Type: transport.TypeString, Default: checkAll,
		Allowed: []string{checkAll, checkHeader},
		Help: "what a packet's CRC-32 covers: all of it, or only its header if the medium " +
			"protects the data. Must be the same at all ranks"},
	{Name: "rto", Type: transport.TypeDuration, Default: "5ms", Min: int64(10 * time.Microsecond),
		Max: int64(time.Minute),
		Help: "retransmission timeout: a slot without progress for this long retransmits its " +
			"unanswered packets"},
	{Name: "rto-backoff", Type: transport.TypeInt, Default: "4", Max: 10,
		Help: "how many times in a row the timeout of a slot without progress doubles"},
	{Name: "congestion", Type: transport.TypeString, Default: congestionTimely,
		Allowed: []string{congestionTimely, congestionNone},
		Help: "congestion control: timely paces a session's packets at a rate that follows " +
			"their round trips"},
	{Name: "link-rate", Type: transport.TypeSize, Default: "0", Max: 1 << 40,
		Help: "timely: initial and highest rate of a session in bytes per second; 0 is 12GiB for " +
			"verbs, 10GiB for other providers"},
	{Name: "timely-least-rate", Type: transport.TypeSize, Default: "15000000", Min: 1000,
		Max:  1 << 40,
		Help: "timely: lowest rate of a session in bytes per second"},
	{Name: "timely-step", Type: transport.TypeSize, Default: "0", Max: 1 << 40,
		Help: "timely: additive increase of the rate in bytes per second; 0 is 5000000 for " +
			"verbs, ten times as much for other providers"},
	{Name: "timely-min-rtt", Type: transport.TypeDuration, Default: "0s", Max: int64(time.Minute),
		Help: "timely: minimum round trip; 0 is 2us for verbs, 1ms for other providers"},
	{Name: "timely-low", Type: transport.TypeDuration, Default: "0s", Max: int64(time.Minute),
		Help: "timely: round trips below this always raise the rate; 0 is 50us for verbs, 10ms " +
			"for other providers"},
	{Name: "timely-high", Type: transport.TypeDuration, Default: "0s", Max: int64(time.Minute),
		Help: "timely: round trips above this always lower the rate; 0 is 1ms for verbs, 50ms " +
			"for other providers"},
	{Name: "timely-alpha", Type: transport.TypeInt, Default: "460000", Min: 1, Max: million,
		Help: "timely: weight of a new round-trip difference in the smoothed one, in millionths"},
	{Name: "timely-beta", Type: transport.TypeInt, Default: "260000", Min: 1, Max: million,
		Help: "timely: multiplicative decrease factor, in millionths"},
	{Name: "timely-hyper", Type: transport.TypeInt, Default: "5", Min: 1, Max: 1 << 20,
		Help: "timely: after this many falling round trips in a row the step is five " +
			"times as large"},
	{Name: "wheel-place", Type: transport.TypeDuration, Default: "500ns", Min: 100,
		Max:  int64(time.Second),
		Help: "time that a bucket of the pacing wheel covers"},
	{Name: "keepalive", Type: transport.TypeDuration, Default: "250ms",
		Min: int64(time.Millisecond), Max: int64(time.Hour),
		Help: "interval between heartbeat pings to each connected rank"},
	{Name: "peer-timeout", Type: transport.TypeDuration, Default: "5s",
		Min: int64(time.Millisecond), Max: int64(24 * time.Hour),
		Help: "a peer whose process does not answer pings for this long is lost, unless it is " +
			"seen to live on this host; a link may be down as long; at least three times " +
			"keepalive"},
	{Name: "connect-timeout", Type: transport.TypeDuration, Default: "1m",
		Min: int64(time.Millisecond), Max: int64(24 * time.Hour),
		Help: "a peer that does not answer the handshake for this long is lost; only time in " +
			"which the worker polls counts"},
	faultOption("drop", "of being dropped"),
	faultOption("duplicate", "of being duplicated"),
	faultOption("reorder", "of being overtaken by later ones"),
	faultOption("corrupt", "of being corrupted"),
	faultOption("delay", "of being held for fault-delay-by"),
	{Name: "fault-delay-by", Type: transport.TypeDuration, Default: "1ms", Max: int64(time.Minute),
		Help: "fault injection: how long a delayed datagram is held"},
	{Name: "fault-seed", Type: transport.TypeInt, Default: "1",
		Help: "fault injection: seed of the faults; each rank and worker derives its own"},
}

func faultOption(what, chance string) transport.Option {
	return transport.Option{Name: "fault-" + what, Type: transport.TypeInt, Default: "0",
		Max: million,
		Help: "fault injection: probability of a datagram " + chance +
			", in millionths, once when it is sent and once when it is received"}
}

// settings is a resolved transport.Config.
type settings struct {
	rank     int
	workers  int
	peers    int
	inFlight int // calls on one connection, including the backlog
	payload  int // largest, in bytes

	provider string // udp, verbs or soft
	auto     string // why provider was chosen; empty if the user chose it
	udp      datagram.UDPOptions
	address  string // udp
	port     int    // udp: of the heartbeat; 0 for any
	device   rdma.Options
	mtu      int
	batch    int
	pads     bool // short messages; see worker.pad
	faults   faulty.Faults

	window         int
	credits        int
	checkAll       bool
	rto            int64
	backoff        int
	timely         bool
	congestion     timelyParameters
	bucket         int64 // width of a bucket of the pacing wheel
	keepalive      time.Duration
	maxMissed      int // consecutive missed pings after which a peer is dead
	peerTimeout    time.Duration
	connectTimeout int64
}

func resolve(cfg transport.Config) (settings, error) {
	o := cfg.Options
	s := settings{
		rank: cfg.Rank, workers: cfg.Workers, peers: max(cfg.Peers, 1),
		inFlight: max(cfg.InFlight, 1), payload: max(cfg.MaxPayload, 1),
		provider: o.String("provider"), address: o.String("address"), port: o.Int("udp-port"),
		mtu: o.Size("mtu"), batch: o.Int("batch"), window: o.Int("window"),
		credits:  o.Int("credits"),
		checkAll: o.String("checksum") == checkAll,
		rto:      int64(o.Duration("rto")), backoff: o.Int("rto-backoff"),
		timely:    o.String("congestion") == congestionTimely,
		bucket:    int64(o.Duration("wheel-place")),
		keepalive: o.Duration("keepalive"), connectTimeout: int64(o.Duration("connect-timeout")),
	}
	s.udp = datagram.UDPOptions{MTU: s.mtu, Batch: s.batch, SendBuffer: o.Size("send-buffer"),
		ReceiveBuffer: o.Size("receive-buffer"), Offload: datagram.Offload(o.String("offload")),
		BusyPoll: o.Duration("busy-poll")}
	s.device = rdma.Options{Device: o.String("device"), Port: o.Int("port"),
		GIDIndex: o.Int("gid-index")}
	fraction := func(option string) float64 { return float64(o.Int(option)) / million }
	s.faults = faulty.Faults{Drop: fraction("fault-drop"), Duplicate: fraction("fault-duplicate"),
		Reorder: fraction("fault-reorder"), Corrupt: fraction("fault-corrupt"),
		Delay: fraction("fault-delay"), DelayBy: o.Duration("fault-delay-by"),
		Seed: uint64(o.Int("fault-seed"))}
	// eRPC has 8 slots and 32 credits. A call that waits for its response keeps one of each, and
	// the server may hold all calls in flight before it answers the first, so the defaults grow
	// with them.
	if s.window == 0 {
		s.window = min(max(pow2.Ceil(s.inFlight), 8), 1024)
	}
	if s.credits == 0 {
		s.credits = max(32, s.inFlight)
	}
	s.peerTimeout = o.Duration("peer-timeout")
	s.maxMissed = int(s.peerTimeout / s.keepalive)
	if err := control.CheckLimits(cfg, Driver{}.Info().Limits); err != nil {
		return s, err
	}
	switch {
	case !pow2.Is(s.window):
		return s, optionError("window", "%d is not a power of two; the next one is %d", s.window,
			pow2.Ceil(s.window))
	case s.mtu != 0 && s.mtu < minMTU:
		return s, badMTU(s.mtu)
	case s.maxMissed < 3:
		return s, optionError("peer-timeout", "%v is less than three times keepalive, %v",
			s.peerTimeout, s.keepalive)
	case s.port != 0 && s.port+cfg.Workers > 65535:
		return s, optionError("udp-port", "%d plus %d ports for the workers exceeds 65535", s.port,
			cfg.Workers)
	}
	if err := s.chooseProvider(); err != nil {
		return s, err
	}
	return s, s.resolveTimely(o)
}

func optionError(option, format string, args ...any) error {
	return &transport.OptionError{Option: option, Problem: fmt.Sprintf(format, args...)}
}

func badMTU(mtu int) error { return optionError("mtu", "%d is less than %d", mtu, minMTU) }

// chooseProvider resolves the provider auto and completes the options of the device.
func (s *settings) chooseProvider() error {
	if s.provider == providerAuto {
		s.provider = providerVerbs
		probe := s.device
		probe.Provider = rdma.Verbs
		device, err := devices.Open(probe)
		if err != nil {
			s.provider, s.auto = providerUDP,
				"udp, because verbs are not available: "+strings.TrimPrefix(err.Error(), "rdma: ")
		} else if err := device.Close(); err != nil {
			return err
		}
	}
	s.pads = s.provider == providerUDP && s.udp.Offload != datagram.OffloadOff
	switch s.provider {
	case providerVerbs:
		s.device.Provider = rdma.Verbs
	case providerSoft:
		s.device.Provider = rdma.Soft
	}
	return nil
}

// resolveTimely fills in the parameters of congestion control. The defaults for verbs are eRPC's.
// Between threads of a host a round trip takes as long as the kernel preempts one of them; with
// eRPC's thresholds a session over kernel sockets fell to its lowest rate and stayed there.
func (s *settings) resolveTimely(o transport.Values) error {
	defaults := timelyParameters{minRTT: 2e3, low: 50e3, high: 1e6, step: 5e6, linkRate: 12 << 30}
	if s.provider != providerVerbs {
		defaults = timelyParameters{minRTT: 1e6, low: 10e6, high: 50e6, step: 50e6,
			linkRate: 10 << 30}
	}
	s.congestion = timelyParameters{
		minRTT:     cmp.Or(float64(o.Duration("timely-min-rtt")), defaults.minRTT),
		low:        cmp.Or(float64(o.Duration("timely-low")), defaults.low),
		high:       cmp.Or(float64(o.Duration("timely-high")), defaults.high),
		step:       cmp.Or(float64(o.Size("timely-step")), defaults.step),
		minRate:    float64(o.Size("timely-least-rate")),
		linkRate:   cmp.Or(float64(o.Size("link-rate")), defaults.linkRate),
		alpha:      float64(o.Int("timely-alpha")) / million,
		beta:       float64(o.Int("timely-beta")) / million,
		hyperAfter: o.Int("timely-hyper"),
	}
	switch c := &s.congestion; {
	case c.low > c.high:
		return optionError("timely-low", "%v exceeds timely-high, %v", time.Duration(c.low),
			time.Duration(c.high))
	case c.minRate > c.linkRate:
		return optionError("timely-least-rate", "%.0f exceeds the link rate, %.0f", c.minRate,
			c.linkRate)
	}
	return nil
}

// Bounds of what grows with the product of several options.
const (
	maxEntries    = 1 << 22 // of a pacing wheel
	maxTimestamps = 1 << 25 // of a session
)

// checkMemory returns an error if options that are each in range take too much memory together.
func (s *settings) checkMemory(credits, maxData int) error {
	if maximum := maxEntries / wheelEntries(s.peers, 1); credits > maximum {
		return optionError("credits",
			"%d for each of %d peers exceed the pacing wheel's %d packets; use at most %d",
			credits, s.peers, maxEntries, maximum)
	}
	if maximum := maxTimestamps / s.timestamps(credits, maxData); s.window > maximum {
		return optionError("window",
			"%d slots of %d packets each exceed %d timestamps; use at most %d, a larger mtu or "+
				"fewer credits",
			s.window, s.timestamps(credits, maxData), maxTimestamps, pow2.Ceil(maximum+1)/2)
	}
	return nil
}

// timestamps returns how many packets of a call can be in flight at once.
func (s *settings) timestamps(credits, maxData int) int {
	return min(credits, 2*packetsOf(s.payload, maxData)-1)
}

// limits returns the limits of an open transport whose packets carry maxData bytes of data.
func (s *settings) limits(maxData int) transport.Limits {
	return transport.Limits{MaxPayload: s.payload, InlineSize: min(maxData, s.payload),
		InFlight: s.inFlight, Peers: maxPeers}
}
