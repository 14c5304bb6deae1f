package tcpx

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/cuda"
)

const (
	name    = "tcpx"
	version = "0.1.0"

	// requests is the ring of a comm, one way. It is a power of two.
	requests = 16
	// laneTasks is how many chunks one data socket may have to send.
	laneTasks = 6

	maxRequest  = 4 << 20
	maxSockets  = 16
	maxPeers    = 256
	maxInFlight = 1 << 16
	maxPayload  = 1 << 30
	maxPort     = 1<<16 - 1
)

// Values of the option striping.
const (
	stripeRoundRobin  = "round-robin"
	stripeLeastLoaded = "least-loaded"
)

// Values of the option zero-copy.
const (
	zeroCopyOff  = "off"
	zeroCopyOn   = "on"
	zeroCopyAuto = "auto"
)

// Values of the option source.
const (
	sourceCold = "cold"
	sourceHot  = "hot"
)

// schema is the transport's options, those of the modes last.
var schema = append([]transport.Option{
	{
		Name: "mode", Type: transport.TypeString, Default: modes[0].name, Allowed: append(modeNames(), modeAuto),
		Help: "what bounce memory is: host has pages in memory and unpacks with processors; gpu has them unpacked by a GPU into its memory; devmem has the NIC fill a dmabuf; auto takes the last of these that this machine can, and says what it took",
	},
	{
		Name: "unpack", Type: transport.TypeString, Default: unpackAuto, Allowed: unpackKinds(),
		Help: "who unpacks; auto is the mode's usual; none leaves the bytes in bounce memory, to show what unpacking costs, and is for `transportbench micro tcpx` alone",
	},
	{
		Name: "unpack-workers", Type: transport.TypeInt, Default: "0", Max: unpackSlots,
		Help: "threads that unpack in mode host; 0 leaves it to the thread that polls",
	},
	{
		Name: "chunk", Type: transport.TypeSize, Default: "512KiB", Max: maxRequest,
		Help: "bytes that go over one socket at a time, a multiple of 4KiB",
	},
	{
		Name: "request", Type: transport.TypeSize, Default: "0", Max: maxRequest,
		Help: "bytes of a request, at least a chunk; 0 is one chunk",
	},
	{
		Name: "send-window", Type: transport.TypeInt, Default: "12",
		Help: "requests that are sent and not acknowledged, 1 to 16",
	},
	{
		Name: "receive-window", Type: transport.TypeInt, Default: "16",
		Help: "requests that are announced and not consumed, 1 to 16",
	},
	{
		Name: "sockets", Type: transport.TypeInt, Default: "1", Min: 1, Max: maxSockets,
		Help: "data sockets of a connection, the same on all ranks",
	},
	{
		Name: "threads", Type: transport.TypeInt, Default: "0", Max: maxSockets,
		Help: "threads of each connection that serve its data sockets, at most one for each; 0 leaves them to the thread that polls",
	},
	{
		Name: "striping", Type: transport.TypeString, Default: stripeRoundRobin, Allowed: []string{stripeRoundRobin, stripeLeastLoaded},
		Help: "which data socket takes the next chunk: each in turn, or the one with the least to send",
	},
	{
		Name: "congestion-control", Type: transport.TypeString, Default: "cubic",
		Help: "congestion control of all sockets, one that the kernel has; empty for the kernel's default, which results do not pin",
	},
	{
		Name: "socket-buffer", Type: transport.TypeSize, Default: "0", Max: 1 << 30,
		Help: "bytes of each socket buffer; 0 lets the kernel fit them",
	},
	{
		Name: "zero-copy", Type: transport.TypeString, Default: zeroCopyOff, Allowed: []string{zeroCopyOff, zeroCopyOn, zeroCopyAuto},
		Help: "send large requests with MSG_ZEROCOPY; auto does so but not over loopback, where the kernel copies all the same",
	},
	{
		Name: "source", Type: transport.TypeString, Default: sourceCold, Allowed: []string{sourceCold, sourceHot},
		Help: "what the floor and the measurements of `transportbench micro tcpx` send: cold walks through 64MiB, hot repeats one chunk",
	},
	{
		Name: "address", Type: transport.TypeString, Default: "127.0.0.1",
		Help: "IP address to listen on, which peers connect to, or a network such as 10.0.0.0/24, for the address that each host has there",
	},
	{
		Name: "data-port", Type: transport.TypeInt, Default: "0", Max: maxPort,
		Help: "port on which data sockets arrive, and nothing else, so that a NIC can be told to steer them; worker n has data-port+n; 0 takes any free ones",
	},
	{
		Name: "connect-timeout", Type: transport.TypeDuration, Default: "1m", Min: int64(10 * time.Millisecond), Max: int64(24 * time.Hour),
		Help: "a peer whose sockets are not all there for so long, in which its worker polls, is lost",
	},
	{
		Name: "timeout", Type: transport.TypeDuration, Default: "10s", Min: int64(10 * time.Millisecond), Max: int64(time.Hour),
		Help: "how long a peer's host may leave the control socket without an answer before the peer is lost",
	},
	faultOption,
}, modeOptions()...)

func modeNames() (names []string) {
	for i := range modes {
		names = append(names, modes[i].name)
	}
	return names
}

func modeOptions() (options []transport.Option) {
	for i := range modes {
		options = append(options, modes[i].options...)
	}
	return options
}

func unpackKinds() []string {
	kinds := []string{unpackAuto}
	for i := range modes {
		for _, kind := range modes[i].unpacks {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// settings is a transport.Config resolved to what the code works with.
type settings struct {
	options transport.Values
	mode    *mode
	unpack  string // never auto
	fault   string
	// The faults of the data path.
	oneTag, noWindow bool

	device   cuda.Description // the GPU's, once it was opened
	autoNote string           // what mode auto took, and why nothing before it; else empty

	unpackWorkers int
	chunk         int
	request       int
	sendWindow    int
	receiveWindow int
	sockets       int
	threads       int
	leastLoaded   bool
	congestion    string
	socketBuffer  int
	zeroCopy      string
	hot           bool // source
	address       netip.Addr
	dataPort      int
	timeout       time.Duration
	patience      time.Duration // with peers that do not connect

	peers    int
	inFlight int
	payload  int // bytes of the largest message
	staging  int // bytes of a connection's send memory
	head     int // bytes of each message that do not stay in device memory
	slots    int // requests that fit a connection's destination ring
}

func resolve(cfg transport.Config) (*settings, error) {
	s, err := resolveOptions(cfg.Options)
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.MaxPayload > maxPayload:
		return nil, fmt.Errorf("%w: %d bytes, and the limit is %d", transport.ErrTooLarge, cfg.MaxPayload, maxPayload)
	case cfg.Peers > maxPeers:
		return nil, fmt.Errorf("%w: %d peers of one worker, and the limit is %d", transport.ErrUnsupported, cfg.Peers, maxPeers)
	case cfg.InFlight > maxInFlight:
		return nil, fmt.Errorf("%w: %d calls in flight on one connection, and the limit is %d", transport.ErrUnsupported, cfg.InFlight, maxInFlight)
	}
	if last := s.dataPort + max(cfg.Workers, 1) - 1; s.dataPort > 0 && last > maxPort {
		return nil, refuse("data-port", "%d workers take a port each, and the last would be %d; use %d or less", cfg.Workers, last, s.dataPort-last+maxPort)
	}
	s.peers, s.inFlight, s.payload = max(cfg.Peers, 1), max(cfg.InFlight, 1), max(cfg.MaxPayload, 1)
	s.head = min(max(cfg.HostPrefix, 0), s.payload)
	// A message is posted whole or not at all, so that there must be room for the
	// largest beside one that is on its way.
	s.staging = powerOfTwo(max(s.sendWindow*s.request, 2*s.payload, ringUnit))
	// One message that is being assembled, those that were handed out with the last
	// Poll, and a window of requests to come. All together are a multiple of ringUnit.
	s.slots = ((s.payload+s.request-1)/s.request + 2*requests + ringUnit/pageSize) &^ (ringUnit/pageSize - 1)
	if s.onGPU() {
		s.slots = s.deviceSlots(s.slots)
	}
	return s, nil
}

// resolveOptions resolves what does not depend on the run.
func resolveOptions(o transport.Values) (*settings, error) {
	s := &settings{options: o,
		unpack: o.String("unpack"), unpackWorkers: o.Int("unpack-workers"),
		chunk: o.Size("chunk"), request: o.Size("request"),
		sendWindow: o.Int("send-window"), receiveWindow: o.Int("receive-window"),
		sockets: o.Int("sockets"), threads: o.Int("threads"), leastLoaded: o.String("striping") == stripeLeastLoaded,
		congestion: o.String("congestion-control"), socketBuffer: o.Size("socket-buffer"), zeroCopy: o.String("zero-copy"),
		fault: o.String("fault"), hot: o.String("source") == sourceHot, timeout: o.Duration("timeout"),
		patience: o.Duration("connect-timeout"), dataPort: o.Int("data-port"),
	}
	s.oneTag, s.noWindow = s.fault == faultOneTag, s.fault == faultNoWindow
	if err := s.checkSizes(); err != nil {
		return nil, err
	}
	if err := s.resolveMode(o.String("mode")); err != nil {
		return nil, err
	}
	if s.threads > 0 && s.mode.newIntake != nil {
		return nil, refuse("threads", "mode %s receives where the NIC has put the bytes, which is for the thread that polls; use 0", s.mode.name)
	}
	var err error
	if s.address, err = transport.LocalAddress("address", o.String("address")); err != nil {
		return nil, err
	}
	return s, s.checkCongestion()
}

func (s *settings) checkSizes() error {
	switch {
	case s.chunk == 0:
		return refuse("chunk", "0 bytes would never get anywhere; use 4KiB or more")
	case s.chunk%pageSize != 0:
		return refuse("chunk", "%d bytes is not a multiple of the page size, 4KiB", s.chunk)
	}
	if s.request == 0 {
		s.request = s.chunk
	}
	switch {
	case s.request < s.chunk:
		return refuse("request", "%s is less than a chunk, %s", transport.FormatSize(int64(s.request)), transport.FormatSize(int64(s.chunk)))
	case s.request%s.chunk != 0:
		return refuse("request", "%s is not a multiple of the chunk, %s", transport.FormatSize(int64(s.request)), transport.FormatSize(int64(s.chunk)))
	}
	for option, window := range map[string]int{"send-window": s.sendWindow, "receive-window": s.receiveWindow} {
		if window < 1 || window > requests {
			return refuse(option, "%d is outside 1 to %d, which is the ring of requests", window, requests)
		}
	}
	if s.threads > s.sockets {
		return refuse("threads", "%d are more than there are data sockets, %d, and each serves one at least", s.threads, s.sockets)
	}
	return nil
}

// congestionControls lists what the kernel has; other modules may be loaded on
// demand, by a process with the right to.
const congestionControls = "/proc/sys/net/ipv4/tcp_available_congestion_control"

func (s *settings) checkCongestion() error {
	if s.congestion == "" {
		return nil
	}
	err := tryCongestion(s.congestion)
	if err == nil {
		return nil
	}
	known, _ := os.ReadFile(congestionControls)
	available := strings.Fields(string(known))
	return refuse("congestion-control", "the kernel does not take %q (%v); it has %s%s", s.congestion, err,
		strings.Join(available, ", "), transport.SuggestionFor(s.congestion, available))
}

func refuse(option, format string, args ...any) error {
	return &transport.OptionError{Option: option, Problem: fmt.Sprintf(format, args...)}
}

// limits are those of the open transport.
func (s *settings) limits() transport.Limits {
	return transport.Limits{MaxPayload: s.payload, InFlight: s.inFlight, Peers: maxPeers}
}

func (s *settings) capabilities() transport.Capabilities {
	c := capabilities
	c.DeviceMemory = s.onGPU()
	return c
}

// capabilities hold under the default options.
var capabilities = transport.Capabilities{Ordered: true, Waits: true, TellsPeerLost: true}
