package tcpx

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/doublemap"
	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/conn"
)

const (
	name = control.Name("tcpx")

	// requests is how many requests a connection holds in each direction. It is a power
	// of two, and the unpacker has as many slots.
	requests = conn.Requests
	// pageSize is the unit of bounce memory.
	pageSize = bounce.PageSize

	maxRequest  = 4 << 20
	maxInline   = 16 << 10
	maxSockets  = conn.MaxLanes
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

// Values of the option unpack-launch.
const (
	launchAsync = "async"
	launchSync  = "sync"
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

// schema has the options of the transport, those of the modes last.
var schema = append([]transport.Option{
	{
		Name: "mode", Type: transport.TypeString, Default: bounce.Modes()[0],
		Allowed: append(bounce.Modes(), bounce.ModeAuto),
		Help: "where payloads arrive: in host they arrive in pages of memory and processors " +
			"unpack them; in gpu a GPU unpacks the pages into its memory; in devmem the NIC " +
			"fills a dmabuf; auto takes the last of these that this machine supports and reports " +
			"what it took",
	},
	{
		Name: "unpack", Type: transport.TypeString, Default: bounce.UnpackAuto,
		Allowed: bounce.Unpackers(),
		Help: "what unpacks; auto is the default of the mode; none leaves the bytes in bounce " +
			"memory, to show what unpacking costs, and works in `transportbench micro tcpx` only",
	},
	{
		Name: "unpack-workers", Type: transport.TypeInt, Default: "0", Max: bounce.UnpackSlots,
		Help: "threads that unpack in mode host; with 0 the polling thread does",
	},
	{
		Name: "unpack-launch", Type: transport.TypeString, Default: launchAsync,
		Allowed: []string{launchAsync, launchSync},
		Help: "async unpacks while the next requests arrive; sync waits for each request, to " +
			"show what that costs; without unpack-workers or a GPU they are the same",
	},
	{
		Name: "chunk", Type: transport.TypeSize, Default: "512KiB", Max: maxRequest,
		Help: "bytes that one data socket carries at a time, a multiple of 4KiB",
	},
	{
		Name: "request", Type: transport.TypeSize, Default: "0", Max: maxRequest,
		Help: "bytes of a request, a multiple of the chunk; 0 is one chunk",
	},
	{
		Name: "send-window", Type: transport.TypeInt, Default: "12",
		Help: "requests cut from the stream and not freed, 1 to 16",
	},
	{
		Name: "receive-window", Type: transport.TypeInt, Default: "16",
		Help: "receives posted and not consumed, 1 to 16",
	},
	{
		Name: "sockets", Type: transport.TypeInt, Default: "1", Min: 1, Max: maxSockets,
		Help: "data sockets of a connection, the same on all ranks",
	},
	{
		Name: "threads", Type: transport.TypeInt, Default: "0", Max: maxSockets,
		Help: "threads of each connection that serve its data sockets, at most one per socket; " +
			"with 0 the polling thread does",
	},
	{
		Name: "inline", Type: transport.TypeSize, Default: "1KiB", Max: maxInline,
		Help: "messages of up to this size, and less if many calls are in flight, travel on the " +
			"control socket, which saves both sides a system call; 0, and the modes gpu and " +
			"devmem, send all as requests",
	},
	{
		Name: "striping", Type: transport.TypeString, Default: stripeRoundRobin,
		Allowed: []string{stripeRoundRobin, stripeLeastLoaded},
		Help: "which data socket takes the next chunk: round-robin gives all the same number of " +
			"bytes, least-loaded takes the one with the fewest bytes to send",
	},
	{
		Name: "congestion-control", Type: transport.TypeString, Default: sock.DefaultCongestion(),
		Help: "congestion control of all sockets; empty for the kernel's default, which is not " +
			"pinned",
	},
	{
		Name: "socket-buffer", Type: transport.TypeSize, Default: "0", Max: 1 << 30,
		Help: "bytes of each socket buffer; 0 lets the kernel choose",
	},
	{
		Name: "zero-copy", Type: transport.TypeString, Default: zeroCopyOff,
		Allowed: []string{zeroCopyOff, zeroCopyOn, zeroCopyAuto},
		Help: "send large requests with MSG_ZEROCOPY; auto does so except over loopback, where " +
			"the kernel copies anyway",
	},
	{
		Name: "source", Type: transport.TypeString, Default: sourceCold,
		Allowed: []string{sourceCold, sourceHot},
		Help: "memory that the floor and `transportbench micro tcpx` send: cold walks through " +
			"64MiB, hot repeats one chunk",
	},
	{
		Name: "address", Type: transport.TypeString, Default: "127.0.0.1",
		Help: "IP address to listen on, or a network such as 10.0.0.0/24 for the address that " +
			"each host has in it",
	},
	{
		Name: "more-addresses", Type: transport.TypeString, Default: "",
		Help: "addresses of further NICs, or networks, with a + between them: data sockets are " +
			"dealt out over `address` and these; as many on each rank",
	},
	{
		Name: "data-port", Type: transport.TypeInt, Default: "0", Max: maxPort,
		Help: "port on which data sockets alone arrive, so that a NIC can steer them; worker n " +
			"listens on data-port+n; 0 takes free ports",
	},
	{
		Name: "connect-timeout", Type: transport.TypeDuration, Default: "1m",
		Min: int64(10 * time.Millisecond), Max: int64(24 * time.Hour),
		Help: "a peer is lost if its sockets are not connected after this time, counted while " +
			"its worker polls",
	},
	{
		Name: "timeout", Type: transport.TypeDuration, Default: "10s",
		Min: int64(10 * time.Millisecond), Max: int64(time.Hour),
		Help: "a peer is lost if its host leaves the control socket unanswered for this long, " +
			"for example because the link is down",
	},
	faultOption,
}, bounce.Options...)

// settings is a [transport.Config], resolved and checked.
type settings struct {
	memory bounce.Setup
	fault  string
	sock   sock.Options
	// sendControl sends on control sockets; a fault replaces it.
	sendControl func(fd int, b []byte) (int, error)

	chunk          int
	request        int
	sendWindow     int
	receiveWindow  int
	inline         int // bytes of the largest message that travels on the control socket
	sockets        int
	threads        int
	leastLoaded    bool
	zeroCopy       string
	hotSource      bool
	dataPort       int
	data           []netip.Addr // of data sockets: the address, and those of further NICs
	connectTimeout time.Duration

	peers    int
	inFlight int
	payload  int // bytes of the largest message
	staging  int // bytes of a connection's staging ring
	slots    int // requests that fit a connection's destination ring
}

func resolve(cfg transport.Config) (*settings, error) {
	s, err := resolveOptions(cfg.Options)
	if err != nil {
		return nil, err
	}
	if err := control.CheckLimits(cfg, Driver{}.Info().Limits); err != nil {
		return nil, err
	}
	if last := s.dataPort + max(cfg.Workers, 1) - 1; s.dataPort > 0 && last > maxPort {
		return nil,
			refuse("data-port",
				"%d workers take a port each, and the last would be %d; use %d or less",
				cfg.Workers, last, s.dataPort-last+maxPort)
	}
	s.peers, s.inFlight, s.payload = max(cfg.Peers, 1), max(cfg.InFlight, 1), max(cfg.MaxPayload, 1)
	s.memory.Peers, s.memory.HostPrefix = s.peers, min(max(cfg.HostPrefix, 0), s.payload)
	s.inline = max(0, min(s.inline, s.payload, inlineInFlight/(2*s.inFlight)-conn.RecordSize))
	// sendOneTag finds only records
	if s.memory.OnGPU() || s.memory.ByNIC() || s.fault == faultOneTag {
		s.inline = 0
	}
	// A message is posted whole or not at all, so there must be room for the largest one
	// beside another that is being sent.
	s.staging = pow2.Ceil(max(s.sendWindow*s.request, 2*s.payload, doublemap.Unit))
	// One message that is being assembled, those that the last Poll handed out, and a window of
	// requests to come, rounded up to 16 slots: a request is whole pages, so doublemap.Unit
	// divides the ring.
	const unit = doublemap.Unit / pageSize
	s.slots = ((s.payload+s.request-1)/s.request + 2*requests + unit) &^ (unit - 1)
	if s.memory.OnGPU() {
		kept := min(keptMessages*s.payload, keptBytes) / s.request
		s.slots = bounce.WholeSlots(s.slots+kept, s.request)
	}
	return s, nil
}

// inlineInFlight is the most bytes that the inline messages of one direction take on the control
// socket, of calls and of replies together. A socket takes that much however slow its peer is, so a
// reply that is inline leaves with the next Flush.
const inlineInFlight = 64 << 10

// keptMessages is how many of the largest messages a destination ring in device memory
// keeps beyond its need, for verification after a window. keptBytes limits them.
const (
	keptMessages = 64
	keptBytes    = 64 << 20
)

// resolveOptions resolves what does not depend on the run.
func resolveOptions(o transport.Values) (*settings, error) {
	s := &settings{
		chunk: o.Size("chunk"), request: o.Size("request"),
		sendWindow: o.Int("send-window"), receiveWindow: o.Int("receive-window"),
		inline: o.Size("inline"), sockets: o.Int("sockets"), threads: o.Int("threads"),
		leastLoaded: o.String("striping") == stripeLeastLoaded,
		zeroCopy:    o.String("zero-copy"), fault: o.String("fault"),
		hotSource:      o.String("source") == sourceHot,
		connectTimeout: o.Duration("connect-timeout"), dataPort: o.Int("data-port"),
		sock: sock.Options{Congestion: o.String("congestion-control"),
			Buffer: o.Size("socket-buffer"), Timeout: o.Duration("timeout")},
		sendControl: sock.SendBytes,
	}
	if err := s.checkSizes(); err != nil {
		return nil, err
	}
	s.applyFault()
	s.memory = bounce.Setup{Request: s.request, Peers: 1, Workers: o.Int("unpack-workers"),
		Sync: o.String("unpack-launch") == launchSync, Fault: s.fault,
		Patience: s.sock.Timeout, DataPort: s.dataPort}
	if err := s.memory.Resolve(o); err != nil {
		return nil, err
	}
	if err := s.checkFault(); err != nil {
		return nil, err
	}
	if s.threads > 0 && s.memory.ByNIC() {
		return nil, refuse("threads", "%d: in mode %s only the polling thread can receive; use 0",
			s.threads, s.memory.Mode())
	}
	var err error
	if s.sock.Address, err = control.LocalAddress("address", o.String("address")); err != nil {
		return nil, err
	}
	s.memory.IPv6 = s.sock.Address.Is6()
	if err := s.resolveMore(o.String("more-addresses")); err != nil {
		return nil, err
	}
	return s, sock.CheckCongestion("congestion-control", s.sock.Congestion)
}

// resolveMore resolves the further addresses of data sockets.
func (s *settings) resolveMore(text string) error {
	const option = "more-addresses"
	s.data = []netip.Addr{s.sock.Address}
	if text == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, "+") {
		a, err := control.LocalAddress(option, one)
		switch {
		case err != nil:
			return err
		case a.Is4() != s.sock.Address.Is4():
			return refuse(option,
				"%s and the address %s are not of one kind: one is IPv4, the other IPv6", a,
				s.sock.Address)
		case slices.Contains(s.data, a):
			return refuse(option, "%s is there twice; give each NIC's address once", a)
		}
		s.data = append(s.data, a)
	}
	switch {
	case len(s.data) > s.sockets:
		return refuse(option, "%d addresses for %d data sockets; set sockets to %d or more",
			len(s.data), s.sockets, len(s.data))
	case s.memory.ByNIC():
		return refuse(option, "in mode %s the bounce memory is that of one NIC; leave it out",
			s.memory.Mode())
	}
	return nil
}

func (s *settings) checkSizes() error {
	switch {
	case s.chunk == 0:
		return refuse("chunk", "0 bytes make no progress; use 4KiB or more")
	case s.chunk%pageSize != 0:
		return refuse("chunk", "%d bytes is not a multiple of the page size, 4KiB", s.chunk)
	}
	if s.request == 0 {
		s.request = s.chunk
	}
	switch {
	case s.request < s.chunk:
		return refuse("request", "%s is less than the chunk, %s",
			transport.FormatSize(int64(s.request)), transport.FormatSize(int64(s.chunk)))
	case s.request%s.chunk != 0:
		return refuse("request", "%s is not a multiple of the chunk, %s",
			transport.FormatSize(int64(s.request)), transport.FormatSize(int64(s.chunk)))
	}
	for option, window := range map[string]int{"send-window": s.sendWindow,
		"receive-window": s.receiveWindow} {
		if window < 1 || window > requests {
			return refuse(option, "%d is out of range (1 to %d)", window, requests)
		}
	}
	if s.threads > s.sockets {
		return refuse("threads",
			"%d is more than the number of data sockets, %d; use one thread per socket at most",
			s.threads, s.sockets)
	}
	return nil
}

// zeroCopyTo reports whether connections to an address send with MSG_ZEROCOPY.
func (s *settings) zeroCopyTo(to netip.Addr) bool {
	return s.zeroCopy == zeroCopyOn || s.zeroCopy == zeroCopyAuto && !to.IsLoopback()
}

// checkLocked refuses zero-copy if the requests that all connections may have in flight
// are more memory than the process may lock. The kernel holds processes with CAP_IPC_LOCK
// to no limit.
func (s *settings) checkLocked(workers int, limit uint64, unlimited bool) error {
	need := uint64(workers) * uint64(s.peers) * uint64(s.sendWindow) * uint64(s.request)
	if s.zeroCopy == zeroCopyOff || unlimited || need <= limit {
		return nil
	}
	return refuse("zero-copy", "%d bytes of requests may be in flight, and the process may lock "+
		"%d; raise `ulimit -l`, or lower send-window or request",
		need, limit)
}

// lockable returns how many bytes the process may lock.
func lockable() (limit uint64, unlimited bool) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil || r.Cur == unix.RLIM_INFINITY {
		return 0, true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3, Pid: int32(os.Getpid())}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err == nil &&
		data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0 {
		return 0, true
	}
	return r.Cur, false
}

// connConfig returns the configuration of connections. messages is how many the peer may announce
// before they are delivered; 0 for a connection that carries none.
func (s *settings) connConfig(messages int) *conn.Config {
	c := &conn.Config{
		Chunk: s.chunk, Request: s.request, Lanes: s.sockets, Threads: s.threads,
		LeastLoaded: s.leastLoaded, SendWindow: s.sendWindow, ReceiveWindow: s.receiveWindow,
		Unpack: s.memory.Unpack != bounce.UnpackNone, Fragments: s.memory.MaxFragments(),
		Inline: s.inline, Messages: messages, SendControl: s.sendControl,
	}
	if messages > 0 {
		c.Slots = s.slots
		if s.memory.OnGPU() {
			c.HostPrefix = s.memory.HostPrefix
		}
	}
	return c
}

func refuse(option, format string, args ...any) error {
	return &transport.OptionError{Option: option, Problem: fmt.Sprintf(format, args...)}
}

// limits are the limits of the open transport.
func (s *settings) limits() transport.Limits {
	return transport.Limits{MaxPayload: s.payload, InlineSize: s.inline, InFlight: s.inFlight,
		Peers: maxPeers}
}

func (s *settings) capabilities() transport.Capabilities {
	c := capabilities
	c.DeviceMemory, c.DeviceSend = s.memory.OnGPU(), s.memory.DeviceSend
	return c
}

// capabilities hold under the default options.
var capabilities = transport.Capabilities{Ordered: true, Waits: true, TellsPeerLost: true,
	Traces: true}
