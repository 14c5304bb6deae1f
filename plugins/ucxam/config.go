package ucxam

import (
	"fmt"
	"time"

	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp"
)

const (
	name    = "ucxam"
	version = "0.1.0"

	maxPayload = 256 << 20
	maxPeers   = 1024
)

// Names of options that errors refer to.
const (
	optionTLS       = "tls"
	optionLane      = "lane"
	optionDevices   = "net-devices"
	optionThreshold = "rndv-threshold"
	optionEager     = "eager-limit"
	optionBound     = "progress-bound"
	optionWakeUp    = "wake-up"
	optionErrors    = "error-handling"
	optionKeepalive = "keepalive"
	optionVariables = "env"
)

// Values of the option error-handling.
const (
	errorsPeer = "peer"
	errorsNone = "none"
)

// schema is the transport's options.
var schema = []transport.Option{
	{
		Name: optionTLS, Type: transport.TypeString, Default: "",
		Help: "UCX_TLS: the transports that UCX may use, such as posix,self or tcp; empty leaves it to the environment and UCX, which take all",
	},
	{
		Name: optionLane, Type: transport.TypeString, Default: "",
		Help: "the one transport of tls that must carry the messages, such as posix or rc_mlx5; empty takes the one that UCX chooses and says which",
	},
	{
		Name: optionDevices, Type: transport.TypeString, Default: "",
		Help: "UCX_NET_DEVICES: the network devices that UCX may use, such as lo or mlx5_0:1; empty leaves it to the environment and UCX",
	},
	{
		Name: optionThreshold, Type: transport.TypeString, Default: "",
		Help: "UCX_RNDV_THRESH: bytes from which on a message is announced and fetched, with kb, mb, inf or auto; empty leaves it to UCX",
	},
	{
		Name: optionEager, Type: transport.TypeSize, Default: "8KiB", Min: 0, Max: 1 << 20,
		Help: "payloads up to this travel as a header alone, UCX's shortest path; what UCX's largest header cannot hold travels as data",
	},
	{
		Name: optionBound, Type: transport.TypeInt, Default: "64", Min: 1, Max: 4096,
		Help: "how often UCX progresses in one poll while there is nothing to deliver",
	},
	{
		Name: optionWakeUp, Type: transport.TypeBool, Default: "false",
		Help: "lets threads park on UCX's event descriptor; UCX leaves out transports that have none",
	},
	{
		Name: optionErrors, Type: transport.TypeString, Default: errorsPeer, Allowed: []string{errorsPeer, errorsNone},
		Help: "peer has UCX tell of lost peers and leaves out transports that cannot; none tells only of those that say farewell",
	},
	{
		Name: optionKeepalive, Type: transport.TypeDuration, Default: "200ms", Min: int64(time.Millisecond), Max: int64(time.Hour),
		Help: "UCX_KEEPALIVE_INTERVAL: how often UCX asks whether a silent peer lives, under error-handling peer",
	},
	{
		Name: optionVariables, Type: transport.TypeString, Default: "",
		Help: "any of UCX's variables, such as UCX_POSIX_FIFO_SIZE=256,UCX_TCP_CM_REUSEADDR=y",
	},
}

// providers are the lanes that UCX may choose, by its names.
var providers = []string{
	"posix", "sysv", "self", "tcp", "xpmem", "rc_verbs", "rc_mlx5", "dc_mlx5", "ud_verbs", "ud_mlx5",
	"srd", "gga_mlx5", "ugni_smsg", "ugni_udt",
}

// capabilities are those of the default options. UCX keeps no order between
// messages that are sent at once and ones that are fetched.
var capabilities = transport.Capabilities{
	TellsPeerLost: true,
}

// Sizes of the memory for messages.
const (
	smallPayload = 8 << 10   // with slots of their own size
	largeBytes   = 512 << 20 // at most, of address space, each way
)

// settings is a transport.Config resolved to what the code works with.
type settings struct {
	worker    ucp.WorkerConfig
	workers   int
	tls       string // asked for; empty is all
	lane      string // asked for; empty is any of tls
	wakeUp    bool
	checked   []ucp.Setting
	others    []ucp.Setting
	variables map[string]string // all of UCX's variables in force
}

func resolve(cfg transport.Config, environ []string) (*settings, error) {
	if cfg.MaxPayload > maxPayload {
		return nil, fmt.Errorf("%w: %d bytes, and the limit is %d", transport.ErrTooLarge, cfg.MaxPayload, maxPayload)
	}
	if cfg.Peers > maxPeers {
		return nil, fmt.Errorf("%w: %d peers of one worker, and the limit is %d", transport.ErrUnsupported, cfg.Peers, maxPeers)
	}
	o := cfg.Options
	s := &settings{
		worker: ucp.WorkerConfig{
			Peers: max(cfg.Peers, 1), Window: max(cfg.InFlight, 1), MaxPayload: max(cfg.MaxPayload, 1),
			Small: smallPayload, Eager: o.Size(optionEager), LargeBytes: largeBytes, Bound: o.Int(optionBound),
			PeerErrors: o.String(optionErrors) == errorsPeer,
		},
		workers: cfg.Workers,
		lane:    o.String(optionLane),
		wakeUp:  o.Bool(optionWakeUp),
	}
	return s, s.resolveVariables(o, environ)
}

// capabilities are those under the options.
func (s *settings) capabilities() transport.Capabilities {
	c := capabilities
	c.Waits = s.wakeUp
	c.TellsPeerLost = s.worker.PeerErrors
	return c
}
