package copyrpc

import (
	"fmt"
	"strconv"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

const (
	maxPeers    = 1024
	maxInFlight = 1 << 20

	minRing     = 16 << 10
	maxAutoRing = 64 << 20 // unless the largest payload needs more
	maxRing     = 1 << 30

	// The largest message takes 1/ringShare of a ring. Then a call and the padding before it
	// fit even when an eighth of the ring is released but not reported yet.
	ringShare  = 8
	maxPayload = maxRing/ringShare - headerSize - messageHeader - unit
)

// Defaults of rdma.ConnectOptions.
const (
	defaultTimeout = 14
	defaultRetries = 7
)

// Values of the option queue-pairs.
const (
	pairsRC = "rc"
	pairsDC = "dc"
)

// Values of the option credit.
const (
	creditPiggyback = "piggyback"
	creditImmediate = "immediate"
	creditRead      = "read"
)

// schema is the transport's options.
var schema = []transport.Option{
	{
		Name: "provider", Type: transport.TypeString, Default: string(rdma.Auto),
		Allowed: []string{string(rdma.Auto), string(rdma.Verbs), string(rdma.Soft)},
		Help: "verbs is an RDMA device through libibverbs; soft is a software device over " +
			"shared memory of this host; auto takes verbs if a device has an active port, else " +
			"soft, and reports its choice",
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
		Help: "entry of the port's GID table; -1 prefers RoCE version 2 with an IPv4 address",
	},
	{
		Name: "mtu", Type: transport.TypeInt, Default: "0", Max: 4096,
		Help: "path MTU in bytes, 256 to 4096; 0 for the smaller of both ports' MTUs",
	},
	{
		Name: "queue-pairs", Type: transport.TypeString, Default: pairsRC,
		Allowed: []string{pairsRC, pairsDC},
		Help: "rc connects a reliable queue pair to each peer; dc has one dynamically connected " +
			"queue pair for all peers of a thread, which mlx5 devices alone have",
	},
	{
		Name: "ring", Type: transport.TypeSize, Default: "0", Max: maxRing,
		Help: "bytes of one ring, a power of two; each peer has one per direction; 0 fits the " +
			"run: four windows of calls of the largest payload, from 16KiB to 64MiB",
	},
	{
		Name: "inline", Type: transport.TypeSize, Default: "220", Max: 4096,
		Help: "send batches of up to this many bytes inline, within the request; the device must " +
			"grant it",
	},
	{
		Name: "signal-interval", Type: transport.TypeInt, Default: "64", Min: 1, Max: 4096,
		Help: "ask for a completion with every nth request; at most half of send-depth",
	},
	{
		Name: "send-depth", Type: transport.TypeInt, Default: "128", Min: 8, Max: 1 << 15,
		Help: "requests that a send queue holds",
	},
	{
		Name: "batches", Type: transport.TypeInt, Default: "0", Max: 1 << 14,
		Help: "batches in flight to one peer, at least 4; the receiver posts one and a half " +
			"times as many receives; 0 is four times the calls in flight, from 64 to 256",
	},
	{
		Name: "credit", Type: transport.TypeString, Default: creditPiggyback,
		Allowed: []string{creditPiggyback, creditImmediate, creditRead},
		Help: "piggyback returns ring space in the headers of batches, and without batches by a " +
			"WRITE; immediate notifies the peer of that WRITE; read fetches the peer's position " +
			"with an RDMA READ when less than a quarter of the ring is free, to measure what " +
			"that costs",
	},
	{
		Name: "timeout", Type: transport.TypeInt, Default: strconv.Itoa(defaultTimeout),
		Min: 1, Max: 31,
		Help: "exponent n of the acknowledgement timeout, 4.096us << n",
	},
	{
		Name: "retries", Type: transport.TypeInt, Default: strconv.Itoa(defaultRetries),
		Min: 1, Max: 7,
		Help: "retransmissions of a request before the connection fails",
	},
	{
		Name: "keepalive", Type: transport.TypeDuration, Default: "250ms",
		Min: int64(time.Millisecond), Max: int64(time.Hour),
		Help: "interval of the empty writes that find a dead peer on an idle connection",
	},
}

// settings is a checked transport.Config.
type settings struct {
	device         rdma.Options
	connect        rdma.ConnectOptions
	pairs          string // pairsRC or pairsDC
	peers          int
	ring           uint64 // bytes of one ring
	allowance      uint64 // ring bytes of the largest message, in a batch of its own
	payload        int    // bytes of the largest payload
	calls          int    // promises of one connection: calls whose response is not released
	callSpace      uint64 // ring bytes that calls, and what lies before them, may take
	inline         int
	signalInterval int
	sendDepth      int
	batches        int
	credit         string // creditPiggyback, creditImmediate or creditRead
	readsCredit    bool   // credit is creditRead
	notifiesCredit bool   // credit is creditImmediate
	lone           bool   // packLone has room for the numbers of a connection
	keepalive      time.Duration
}

// resolve checks a configuration and computes the sizes that follow from it.
func resolve(cfg transport.Config) (settings, error) {
	o := cfg.Options
	s := settings{
		device: rdma.Options{Provider: rdma.Provider(o.String("provider")),
			Device: o.String("device"),
			Port:   o.Int("port"), GIDIndex: o.Int("gid-index")},
		connect: rdma.ConnectOptions{MTU: o.Int("mtu"), Timeout: o.Int("timeout"),
			Retries: o.Int("retries")},
		pairs: o.String("queue-pairs"),
		peers: max(cfg.Peers, 1), inline: o.Size("inline"),
		signalInterval: o.Int("signal-interval"), sendDepth: o.Int("send-depth"),
		batches: o.Int("batches"), credit: o.String("credit"), keepalive: o.Duration("keepalive"),
	}
	s.readsCredit, s.notifiesCredit = s.credit == creditRead, s.credit == creditImmediate
	if err := control.CheckLimits(cfg, transport.Limits{MaxPayload: maxPayload,
		InFlight: maxInFlight, Peers: maxPeers}); err != nil {
		return s, err
	}
	switch {
	case s.signalInterval > s.sendDepth/2:
		return s, &transport.OptionError{Option: "signal-interval",
			Problem: fmt.Sprintf("%d is over half of send-depth (%d): the send queue would fill "+
				"up before a request completes", s.signalInterval, s.sendDepth)}
	case s.connect.MTU != 0 && (s.connect.MTU < 256 || !pow2.Is(s.connect.MTU)):
		// the option has the maximum
		return s, &transport.OptionError{Option: "mtu",
			Problem: fmt.Sprintf("%d is not 256, 512, 1024, 2048 or 4096", s.connect.MTU)}
	case s.pairs == pairsDC && s.connect != (rdma.ConnectOptions{Timeout: defaultTimeout,
		Retries: defaultRetries}):
		return s, &transport.OptionError{Option: "queue-pairs",
			Problem: "mtu, timeout and retries " +
				"are options of rc; leave them out with dc"}
	case s.batches == 0:
		// A batch holds at least one message, and at most half of the consumed receives are
		// unreported. So up to 64 calls in flight, a flush never waits for receives.
		s.batches = min(max(64, 4*cfg.InFlight), 256)
	case s.batches < 4:
		return s, &transport.OptionError{Option: "batches",
			Problem: fmt.Sprintf("%d is below 4", s.batches)}
	}
	return s, s.resolveRing(o.Size("ring"), max(cfg.InFlight, 1), cfg.MaxPayload)
}

func (s *settings) resolveRing(ring, inFlight, payload int) error {
	s.allowance = allowance(payload)
	switch {
	case ring == 0:
		need := int(s.allowance) * ringShare
		if inFlight > 1 {
			need = int(s.allowance) * max(2*ringShare, 4*inFlight)
		}
		ring = max(minRing, pow2.Ceil(int(s.allowance)*ringShare),
			min(maxAutoRing, pow2.Ceil(need)))
	case !pow2.Is(ring):
		return &transport.OptionError{Option: "ring",
			Problem: fmt.Sprintf("%d bytes is not a power of two; %s is the next", ring,
				transport.FormatSize(int64(pow2.Ceil(ring))))}
	case uint64(ring) < ringShare*s.allowance || ring < ringShare*unit:
		return &transport.OptionError{Option: "ring", Problem: fmt.Sprintf("%s holds messages of "+
			"up to %d bytes with headers, but the run posts %d; leave it at 0 to fit the run",
			transport.FormatSize(int64(ring)), ring/ringShare, s.allowance)}
	}
	if s.pairs == pairsDC && ring > maxDynamicRing {
		return &transport.OptionError{Option: "queue-pairs", Problem: fmt.Sprintf(
			"dc has rings of %s at most, but the ring has %s", transport.FormatSize(maxDynamicRing),
			transport.FormatSize(int64(ring)))}
	}
	s.ring = uint64(ring)
	// There are two windows of promises: for the calls in flight, and for the responses that
	// the caller has polled and holds until its next Poll. They take at most half of the ring
	// and leave room for the calls, one padding batch and the eighth that may be unreported.
	a := int(s.allowance)
	s.calls = min(2*inFlight, ring/2/a, (ring*7/8-2*a)*2/3/a)
	s.lone = s.calls <= maxLoneCalls && s.batches <= maxLoneReceives &&
		s.ring/unit <= maxLoneReturned
	s.callSpace = s.ring - uint64(s.calls+1)*s.allowance
	s.payload = int(s.allowance) - headerSize - messageHeader
	return nil
}

// limits returns the limits of the open transport.
func (s *settings) limits() transport.Limits {
	return transport.Limits{MaxPayload: s.payload,
		InlineSize: max(min(s.inline, s.payload+headerSize+messageHeader)-headerSize-messageHeader,
			0),
		InFlight: s.calls / 2, Peers: maxPeers}
}

// receives returns how many receives a worker posts: for each peer one per batch in
// flight and one for its farewell, and half of that again because the queue is refilled
// when a third of it is gone.
func (s *settings) receives() int { return s.peers * (s.batches + 2) * 3 / 2 }

// completions returns the size of a completion queue: all receives, and all requests of
// the send queues.
func (s *settings) completions() int { return s.receives() + s.peers*(s.sendDepth+2) }

// memory returns the bytes of registered memory of one peer: two rings, the words for one-sided
// access, and what probes write.
func (s *settings) memory() int { return 2*int(s.ring) + controlSize + s.probeMemory() }

// probeMemory returns the bytes that the longest message of a probe takes, in whole pages.
func (s *settings) probeMemory() int { return (s.payload + transport.ProbeHeader + 4095) &^ 4095 }
