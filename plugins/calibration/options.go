package calibration

import (
	"time"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/transport"
)

const name = "calibration"

// Values of delay-distribution.
const (
	fixed       = "fixed"
	exponential = "exponential"
	bimodal     = "bimodal"
)

const (
	maxDelay = int64(time.Minute)
	maxRate  = 1e9
)

// schema lists the options.
var schema = []transport.Option{
	{
		Name: "ring", Type: transport.TypeString, Default: inbox.Auto, Allowed: inbox.Rings(),
		Help: "as the option of shm",
	},
	{
		Name: "delay", Type: transport.TypeDuration, Default: "0s", Max: maxDelay,
		Help: "time from the arrival of a response until it is returned to the caller; the mean " +
			"if the delays are exponential",
	},
	{
		Name: "delay-distribution", Type: transport.TypeString, Default: fixed,
		Allowed: []string{fixed, exponential, bimodal},
		Help: "with bimodal, one response in slow-every, at random, takes slow-delay instead " +
			"of delay",
	},
	{
		Name: "slow-delay", Type: transport.TypeDuration, Default: "0s", Max: maxDelay,
		Help: "with bimodal delays: the delay of a slow response",
	},
	{
		Name: "slow-every", Type: transport.TypeInt, Default: "0", Max: 1 << 40,
		Help: "with bimodal delays: one response in so many is slow",
	},
	{
		Name: "rate", Type: transport.TypeInt, Default: "0", Max: maxRate,
		Help: "calls per second that each worker takes; 0 means no limit",
	},
	{
		Name: "stall", Type: transport.TypeDuration, Default: "0s", Max: maxDelay,
		Help: "time for which all workers stand still in each period of stall-every",
	},
	{
		Name: "stall-every", Type: transport.TypeDuration, Default: "1s",
		Min: int64(time.Microsecond), Max: maxDelay,
		Help: "period of the stalls, which begin at its multiples on the host's CLOCK_MONOTONIC",
	},
	{
		Name: "lose-every", Type: transport.TypeInt, Default: "0", Max: 1 << 40,
		Help: "each worker loses one response in so many; 0 means none",
	},
	{
		Name: "corrupt-every", Type: transport.TypeInt, Default: "0", Max: 1 << 40,
		Help: "each worker flips a bit in the payload of one response in so many; 0 means none",
	},
	{
		Name: "duplicate-every", Type: transport.TypeInt, Default: "0", Max: 1 << 40,
		Help: "each worker returns one response in so many twice; 0 means none",
	},
	{
		Name: "reorder-every", Type: transport.TypeInt, Default: "0", Max: 1 << 40,
		Help: "each worker returns one response and one request in so many after the next one, " +
			"or after 1ms; 0 means none",
	},
	{
		Name: "client-time", Type: transport.TypeDuration, Default: "0s", Max: int64(time.Second),
		Help: "processor time that the caller's worker adds to each call",
	},
	{
		Name: "daemon-time", Type: transport.TypeDuration, Default: "0s", Max: int64(time.Second),
		Help: "processor time that the server's worker adds to each request",
	},
	{
		Name: "path", Type: transport.TypeString, Default: pathMemory,
		Allowed: []string{pathMemory, pathTCP, pathDetour},
		Help: "what the transport states of its path: with tcp it lies, and with detour it " +
			"conceals that each worker sends all payloads over a TCP connection as well",
	},
}

// injection has what the options inject. The zero value is nothing. Times are in nanoseconds.
type injection struct {
	delay                  delay
	rate                   int
	stall                  stall
	lose, corrupt          int
	duplicate, reorder     int
	clientTime, daemonTime int64
	path                   string
}

// resolve returns what the options inject.
func resolve(o transport.Values) (injection, error) {
	in := injection{
		rate: o.Int("rate"),
		lose: o.Int("lose-every"), corrupt: o.Int("corrupt-every"),
		duplicate: o.Int("duplicate-every"), reorder: o.Int("reorder-every"),
		clientTime: int64(o.Duration("client-time")), daemonTime: int64(o.Duration("daemon-time")),
	}
	if path := o.String("path"); path != pathMemory {
		in.path = path
	}
	mean, slow, every := int64(o.Duration("delay")), int64(o.Duration("slow-delay")),
		uint64(o.Int("slow-every"))
	switch o.String("delay-distribution") {
	case bimodal:
		if every == 0 {
			return in, &transport.OptionError{Option: "slow-every",
				Problem: "bimodal delays need 1 or more"}
		}
		in.delay = delay{mean: mean, slow: slow, slowEvery: every}
	case exponential:
		in.delay = delay{mean: mean, random: mean > 0}
	default:
		in.delay = delay{mean: mean}
	}
	if in.delay.slowEvery == 0 && (slow != 0 || every != 0) {
		return in, &transport.OptionError{Option: "delay-distribution",
			Problem: "slow-delay and slow-every need bimodal"}
	}
	if length, every := int64(o.Duration("stall")), int64(o.Duration("stall-every")); length > 0 {
		if length >= every {
			return in, &transport.OptionError{Option: "stall",
				Problem: "must be shorter than stall-every"}
		}
		in.stall = stall{length: length, every: every}
	}
	return in, nil
}

// inboxConfig returns the configuration of the transport below, with the defaults of plugins/shm.
func inboxConfig(cfg transport.Config) inbox.Config {
	return inbox.Config{
		Name: name, Ring: cfg.Options.String("ring"), Backing: shm.Memfd, HotRings: 4,
		Workers: cfg.Workers, Peers: cfg.Peers, InFlight: cfg.InFlight, MaxPayload: cfg.MaxPayload,
	}
}
