package ucxam

import (
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp"
)

// Names of options.
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

// schema lists the options.
var schema = []transport.Option{
	{
		Name: optionTLS, Type: transport.TypeString, Default: "",
		Help: "UCX_TLS: the transports that UCX may use, such as posix,self or tcp; empty leaves " +
			"the choice to the environment and UCX, whose default is all; between machines all " +
			"but shared memory, and on one machine, if net-devices is empty, all but tcp",
	},
	{
		Name: optionLane, Type: transport.TypeString, Default: "",
		Help: "the transport of tls that must carry the messages, such as posix or rc_mlx5; " +
			"empty accepts any, and the result names the one that UCX chooses",
	},
	{
		Name: optionDevices, Type: transport.TypeString, Default: "",
		Help: "UCX_NET_DEVICES: the network devices that UCX may use, such as lo or mlx5_0:1; " +
			"empty leaves the choice to the environment and UCX",
	},
	{
		Name: optionThreshold, Type: transport.TypeString, Default: "",
		Help: "UCX_RNDV_THRESH: message size from which UCX uses rendezvous, with kb, mb, inf or " +
			"auto; empty leaves it to UCX",
	},
	{
		Name: optionEager, Type: transport.TypeSize, Default: "8KiB", Min: 0, Max: 1 << 20,
		Help: "largest payload that is sent as a header alone, UCX's shortest path; UCX's " +
			"largest header limits it further",
	},
	{
		Name: optionBound, Type: transport.TypeInt, Default: "64", Min: 1, Max: 4096,
		Help: "limit of UCX progress calls in one poll while nothing arrives",
	},
	{
		Name: optionWakeUp, Type: transport.TypeBool, Default: "false",
		Help: "lets threads park on UCX's event descriptor; UCX then omits transports without one",
	},
	{
		Name: optionErrors, Type: transport.TypeString, Default: errorsPeer,
		Allowed: []string{errorsPeer, errorsNone},
		Help: "peer makes UCX report lost peers, and omits transports that cannot; none reports " +
			"only peers that close in order",
	},
	{
		Name: optionKeepalive, Type: transport.TypeDuration, Default: "200ms",
		Min: int64(time.Millisecond), Max: int64(time.Hour),
		Help: "UCX_KEEPALIVE_INTERVAL: how often UCX checks that a silent peer is alive, with " +
			"error-handling peer",
	},
	{
		Name: optionVariables, Type: transport.TypeString, Default: "",
		Help: "other variables of UCX, such as UCX_POSIX_FIFO_SIZE=256,UCX_TCP_CM_REUSEADDR=y",
	},
}

// providers are the transports that UCX may choose, by its names.
var providers = []string{
	"posix", "sysv", "self", "tcp", "xpmem", "rc_verbs", "rc_mlx5", "dc_mlx5", "ud_verbs",
	"ud_mlx5",
	"srd", "gga_mlx5", "ugni_smsg", "ugni_udt",
}

// capabilities are what the default options provide. They lack Ordered, because UCX does not order
// eager messages and rendezvous.
var capabilities = transport.Capabilities{
	TellsPeerLost: true,
}

// Sizes of the memory for messages.
const (
	smallPayload = 8 << 10   // largest payload of a small slot
	largeBytes   = 512 << 20 // limit of address space for large slots, per direction
)

// settings is a checked transport.Config.
type settings struct {
	worker    ucp.WorkerConfig
	workers   int
	tls       string // requested; empty means all
	lane      string // requested; empty means any of tls
	wakeUp    bool
	checked   []ucp.Setting
	others    []ucp.Setting
	variables map[string]string // UCX's variables that the user, an option or the transport has set
}

func resolve(cfg transport.Config, environ []string) (*settings, error) {
	if err := control.CheckLimits(cfg, Driver{}.Info().Limits); err != nil {
		return nil, err
	}
	o := cfg.Options
	s := &settings{
		worker: ucp.WorkerConfig{
			Peers: max(cfg.Peers, 1), Window: max(cfg.InFlight, 1),
			MaxPayload: max(cfg.MaxPayload, 1),
			Small:      smallPayload, Eager: o.Size(optionEager), LargeBytes: largeBytes,
			Bound:      o.Int(optionBound),
			PeerErrors: o.String(optionErrors) == errorsPeer,
		},
		workers: cfg.Workers,
		lane:    o.String(optionLane),
		wakeUp:  o.Bool(optionWakeUp),
	}
	return s, s.resolveVariables(o, environ, cfg.Crosses)
}

// capabilities returns those of these options.
func (s *settings) capabilities() transport.Capabilities {
	c := capabilities
	c.Waits = s.wakeUp
	c.TellsPeerLost = s.worker.PeerErrors
	return c
}
