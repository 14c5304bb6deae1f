package ucxam

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// lane is the transport and the device over which UCX sends the active messages of a connection.
type lane struct {
	transport string // "posix", "tcp", "rc_mlx5"
	device    string // "memory", "lo", "mlx5_0:1"
}

func (l lane) String() string { return l.transport + "/" + l.device }

// medium returns the medium of the lane's transport, or "".
func (l lane) medium() string {
	switch {
	case slices.Contains(aliases["sm"], l.transport), l.transport == "self":
		return transport.MediumMemory
	case l.transport == "tcp":
		return transport.MediumTCP
	case slices.Contains(aliases["ib"], l.transport):
		return transport.MediumVerbs
	}
	return ""
}

// listen returns a port for probes at an address of the lane's network interface.
func (l lane) listen() (*floor.StreamPort, error) {
	i, err := net.InterfaceByName(l.device)
	if err != nil {
		return nil, fmt.Errorf("a port for probes on %s: %w", l.device, err)
	}
	addresses, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("a port for probes on %s: %w", l.device, err)
	}
	var at netip.Addr
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if ip := prefix.Addr(); err == nil && !ip.IsLinkLocalUnicast() &&
			(!at.IsValid() || ip.Is4() && !at.Is4()) {
			at = ip
		}
	}
	if !at.IsValid() {
		return nil, fmt.Errorf("a port for probes: the interface %s has no address", l.device)
	}
	return floor.ListenStream(at)
}

// laneLine matches a lane in the output of ucp_ep_print_info of UCX 1.13 and later:
//
//	#   lane[0]:  3:posix/memory.0 md[2]  -> md[2]/posix/sysdev[255] am am_bw#0
//
// The word am marks the lane that carries active messages.
var laneLine = regexp.MustCompile(`lane\[\d+\]:\s+\d+:([a-z0-9_]+)/(\S+?)\.\d+\s.*->.*\sam(\s|$)`)

// laneOf returns the lane in UCX's description of a connection.
func laneOf(info string) (lane, error) {
	for line := range strings.Lines(info) {
		if m := laneLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			return lane{transport: m[1], device: m[2]}, nil
		}
	}
	return lane{},
		fmt.Errorf("UCX's description of the connection has no lane for active messages: %q", info)
}

// aliases are the names in UCX_TLS that mean several transports
// (ucp_tl_aliases in UCX's src/ucp/core/ucp_context.c).
var aliases = map[string][]string{
	"mm":   {"posix", "sysv", "xpmem"},
	"sm":   {"posix", "sysv", "xpmem", "knem", "cma", "rdmacm", "sockcm"},
	"shm":  {"posix", "sysv", "xpmem", "knem", "cma", "rdmacm", "sockcm"},
	"ib":   {"rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5", "dc_mlx5", "rdmacm"},
	"ud_v": {"ud_verbs"},
	"ud_x": {"ud_mlx5"},
	"ud":   {"ud_mlx5", "ud_verbs"},
	"rc_v": {"rc_verbs", "ud_verbs"},
	"rc_x": {"rc_mlx5", "ud_mlx5"},
	"rc":   {"rc_mlx5", "ud_mlx5", "rc_verbs", "ud_verbs"},
	"dc":   {"dc_mlx5"},
	"dc_x": {"dc_mlx5"},
	"ugni": {"ugni_smsg", "ugni_udt", "ugni_rdma"},
	"cuda": {"cuda_copy", "cuda_ipc", "gdr_copy"},
	"rocm": {"rocm_copy", "rocm_ipc", "rocm_gdr"},
	"ze":   {"ze_copy", "ze_ipc", "ze_gdr"},
	"gdr":  {"gdr_copy"},
}

// requested returns the transports in a value of UCX_TLS. all is true if it means all
// transports, or all except some.
func requested(tls string) (names []string, all bool) {
	if tls == "" || strings.HasPrefix(tls, "^") {
		return nil, true
	}
	for item := range strings.SplitSeq(tls, ",") {
		item, _, _ = strings.Cut(strings.TrimSpace(item), ":") // ud:aux
		item = strings.TrimPrefix(item, `\`)                   // not an alias
		if item == "all" {
			return nil, true
		}
		names = append(names, item)
	}
	return names, false
}

// mayUse reports whether a value of UCX_TLS includes a transport.
func mayUse(tls, transport string) bool {
	if others, found := strings.CutPrefix(tls, "^"); found {
		return !mayUse(others, transport)
	}
	names, all := requested(tls)
	return all || slices.ContainsFunc(names,
		func(item string) bool { return slices.Contains(expand(item), transport) })
}

func expand(item string) []string {
	if list, ok := aliases[item]; ok {
		return list
	}
	return []string{item}
}

// resourceLine matches a device in the output of ucp_context_print_info.
var resourceLine = regexp.MustCompile(`(?m)^#\s+resource\s+\d+\s*:.*--\s+([a-z0-9_]+)/(\S+)`)

// checkResources returns an error if a requested transport or device does not exist. UCX
// itself would continue without it.
func (s *settings) checkResources(contextInfo string) error {
	var transports, devices []string
	for _, m := range resourceLine.FindAllStringSubmatch(contextInfo, -1) {
		transports, devices = append(transports, m[1]), append(devices, m[2])
	}
	return errors.Join(checkTransports(s.tls, transports), checkDevices(s.variables["NET_DEVICES"],
		s.tlsInForce(), devices))
}

// checkDevices returns an error if a device in a value of UCX_NET_DEVICES does not exist. An
// InfiniBand device may be named without its port.
func checkDevices(value, tls string, existing []string) error {
	if value == "" || value == "all" || strings.HasPrefix(value, "^") {
		return nil
	}
	for item := range strings.SplitSeq(value, ",") {
		if !slices.ContainsFunc(existing, func(device string) bool {
			return device == item ||
				strings.HasPrefix(device, item+":")
		}) {
			return refuse(optionDevices,
				"UCX has no device %q for UCX_TLS=%s; ucx_info -d lists its devices", item, tls)
		}
	}
	return nil
}

// checkTransports returns an error if a transport in a value of UCX_TLS does not exist.
func checkTransports(tls string, existing []string) error {
	names, all := requested(tls)
	if all {
		return nil
	}
	for _, item := range names {
		if !slices.ContainsFunc(expand(item),
			func(name string) bool { return slices.Contains(existing, name) }) {
			return refuse(optionTLS,
				"UCX has no transport or device for %q here; ucx_info -d lists its transports",
				item)
		}
	}
	return nil
}

// checkLane returns an error if a lane is not the one that the options request.
func (s *settings) checkLane(l lane) error {
	if s.lane != "" && l.transport != s.lane {
		return refuse(optionLane, "asked for %s, but UCX chose %s from %s", s.lane, l,
			s.tlsInForce())
	}
	if mayUse(s.tls, l.transport) {
		return nil
	}
	return refuse(optionTLS, "asked for %s, but UCX chose %s", s.tls, l)
}

func (s *settings) tlsInForce() string {
	if s.tls == "" {
		return "all"
	}
	return s.tls
}
