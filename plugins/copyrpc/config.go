package copyrpc

import (
	"fmt"
	"math/bits"
	"time"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

const (
	name    = "copyrpc"
	version = "0.1.0"

	maxPeers    = 1024
	maxInFlight = 1 << 20

	leastRing = 16 << 10
	mostRing  = 64 << 20 // that nobody asked for
	maxRing   = 1 << 30
	// The largest message is an eighth of a ring: then a call and the filler before
	// it have room although up to an eighth is not told to be free.
	ringShare  = 8
	maxPayload = maxRing/ringShare - headerSize - messageHeader - unit
)

// How credit comes back to a sender.
const (
	creditPiggyback = "piggyback"
	creditRead      = "read"
)

// schema is the transport's options.
var schema = []transport.Option{
	{
		Name: "provider", Type: transport.TypeString, Default: string(rdma.Auto),
		Allowed: []string{string(rdma.Auto), string(rdma.Verbs), string(rdma.Soft)},
		Help:    "verbs is an RDMA device through libibverbs, soft a software device over shared memory of this host; auto is verbs where a device has an active port, and says what it took",
	},
	{
		Name: "device", Type: transport.TypeString, Default: "",
		Help: "RDMA device, such as mlx5_0; empty for the first with an active port",
	},
	{
		Name: "port", Type: transport.TypeInt, Default: "0", Max: 255,
		Help: "port of the device, from 1; 0 for the first active one",
	},
	{
		Name: "gid-index", Type: transport.TypeInt, Default: "-1", Min: -1, Max: 1023,
		Help: "entry of the port's GID table; -1 for RoCE version 2 with an IPv4 address where there is one",
	},
	{
		Name: "mtu", Type: transport.TypeInt, Default: "0", Max: 4096,
		Help: "path MTU in bytes, 256 to 4096; 0 for what the ports have",
	},
	{
		Name: "ring", Type: transport.TypeSize, Default: "0", Max: maxRing,
		Help: "bytes of a ring, a power of two, one for each peer and direction; 0 fits the run: four windows of calls of the largest payload, from 16KiB to 64MiB",
	},
	{
		Name: "inline", Type: transport.TypeSize, Default: "220", Max: 4096,
		Help: "batches up to this many bytes go inline, within the request; the device must grant it",
	},
	{
		Name: "signal-interval", Type: transport.TypeInt, Default: "64", Min: 1, Max: 4096,
		Help: "every how many requests one asks for a completion; at most half of the send depth",
	},
	{
		Name: "send-depth", Type: transport.TypeInt, Default: "128", Min: 8, Max: 1 << 15,
		Help: "requests of a send queue",
	},
	{
		Name: "batches", Type: transport.TypeInt, Default: "0", Max: 1 << 14,
		Help: "batches on their way to one peer, at least 4; as many receives, and half of that again, are posted for each; 0 is four times the calls in flight, from 64 to 256",
	},
	{
		Name: "credit", Type: transport.TypeString, Default: creditPiggyback, Allowed: []string{creditPiggyback, creditRead},
		Help: "piggyback returns room in the headers of batches; read fetches the peer's position with an RDMA READ when less than a quarter of the ring is free, to show what that costs",
	},
	{
		Name: "timeout", Type: transport.TypeInt, Default: "14", Min: 1, Max: 31,
		Help: "exponent of the acknowledgement timeout, 4.096us << n",
	},
	{
		Name: "retries", Type: transport.TypeInt, Default: "7", Min: 1, Max: 7,
		Help: "transmissions of a request after its first",
	},
	{
		Name: "keepalive", Type: transport.TypeDuration, Default: "250ms", Min: int64(time.Millisecond), Max: int64(time.Hour),
		Help: "how often an idle connection is tried with an empty write, which is how a dead peer shows",
	},
}

// settings is a transport.Config resolved to what the code works with.
type settings struct {
	device    rdma.Options
	connect   rdma.ConnectOptions
	peers     int
	ring      uint64 // bytes of one
	allowance uint64 // of the largest message
	payload   int    // bytes of the largest
	calls     int    // promised at once, on one connection
	callLimit uint64 // bytes that calls may take of a ring, with what came before them
	inline    int
	signal    int
	depth     int
	batches   int
	credit    string // creditPiggyback or creditRead
	fetches   bool   // whether it is creditRead, for data paths
	keepalive time.Duration
}

func resolve(cfg transport.Config) (settings, error) {
	o := cfg.Options
	s := settings{
		device: rdma.Options{Provider: rdma.Provider(o.String("provider")), Device: o.String("device"),
			Port: o.Int("port"), GIDIndex: o.Int("gid-index")},
		connect: rdma.ConnectOptions{MTU: o.Int("mtu"), Timeout: o.Int("timeout"), Retries: o.Int("retries")},
		peers:   max(cfg.Peers, 1), inline: o.Size("inline"), signal: o.Int("signal-interval"), depth: o.Int("send-depth"),
		batches: o.Int("batches"), credit: o.String("credit"), keepalive: o.Duration("keepalive"),
	}
	s.fetches = s.credit == creditRead
	switch {
	case cfg.MaxPayload > maxPayload:
		return s, fmt.Errorf("%w: %d bytes, and the limit is %d", transport.ErrTooLarge, cfg.MaxPayload, maxPayload)
	case cfg.Peers > maxPeers:
		return s, fmt.Errorf("%w: %d peers of one worker, and the limit is %d", transport.ErrUnsupported, cfg.Peers, maxPeers)
	case cfg.InFlight > maxInFlight:
		return s, fmt.Errorf("%w: %d calls in flight on one connection, and the limit is %d", transport.ErrUnsupported, cfg.InFlight, maxInFlight)
	case s.signal > s.depth/2:
		return s, &transport.OptionError{Option: "signal-interval", Problem: fmt.Sprintf("%d is over half of send-depth, %d: the send queue would fill up before a request completes", s.signal, s.depth)}
	}
	if err := s.resolveMTU(); err != nil {
		return s, err
	}
	if s.batches == 0 {
		// A batch has a message at least, and at most half of the batches are not
		// told of: so up to 64 calls in flight, a flush never waits for receives.
		s.batches = min(max(64, 4*cfg.InFlight), 256)
	} else if s.batches < 4 {
		return s, &transport.OptionError{Option: "batches", Problem: fmt.Sprintf("%d is below 4", s.batches)}
	}
	return s, s.resolveRing(o.Size("ring"), max(cfg.InFlight, 1), cfg.MaxPayload)
}

func (s *settings) resolveMTU() error {
	switch s.connect.MTU {
	case 0, 256, 512, 1024, 2048, 4096:
		return nil
	}
	return &transport.OptionError{Option: "mtu", Problem: fmt.Sprintf("%d is not 256, 512, 1024, 2048 or 4096", s.connect.MTU)}
}

func (s *settings) resolveRing(ring, inFlight, payload int) error {
	s.allowance = allowance(payload)
	switch {
	case ring == 0:
		need := int(s.allowance) * ringShare
		if inFlight > 1 {
			need = int(s.allowance) * max(2*ringShare, 4*inFlight)
		}
		ring = max(leastRing, powerOfTwo(int(s.allowance)*ringShare), min(mostRing, powerOfTwo(need)))
	case bits.OnesCount(uint(ring)) != 1:
		return &transport.OptionError{Option: "ring", Problem: fmt.Sprintf("%d bytes is not a power of two; %s is the next", ring, transport.FormatSize(int64(powerOfTwo(ring))))}
	case uint64(ring) < ringShare*s.allowance || ring < ringShare*unit:
		return &transport.OptionError{Option: "ring", Problem: fmt.Sprintf("%s has a share of %d bytes for a message, and the run posts %d with its headers; leave it at 0 to fit",
			transport.FormatSize(int64(ring)), ring/ringShare, s.allowance)}
	}
	s.ring = uint64(ring)
	// Promises are two windows: of the calls in flight, and of the responses that the
	// caller has polled and holds until its next Poll. They take half of a ring at
	// most, and leave room for the calls themselves, one filler, and the eighth.
	a := int(s.allowance)
	s.calls = min(2*inFlight, ring/2/a, (ring*7/8-2*a)*2/3/a)
	s.callLimit = s.ring - uint64(s.calls+1)*s.allowance
	// What the share has beyond the run's payload is not promised to anybody.
	s.payload = int(s.allowance) - headerSize - messageHeader
	return nil
}

// limits are those of the open transport.
func (s *settings) limits() transport.Limits {
	return transport.Limits{MaxPayload: s.payload, InlineSize: max(min(s.inline, s.payload+headerSize+messageHeader)-headerSize-messageHeader, 0),
		InFlight: s.calls / 2, Peers: maxPeers}
}

// powerOfTwo rounds up.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
