package ucxam

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// lane is what UCX sends active messages over: a transport of its own and a
// device.
type lane struct {
	transport string // "posix", "tcp", "rc_mlx5"
	device    string // "memory", "lo", "mlx5_0:1"
}

func (l lane) String() string { return l.transport + "/" + l.device }

// laneLine is how ucp_ep_print_info shows a lane, in UCX 1.13 and later:
//
//	#   lane[0]:  3:posix/memory.0 md[2]  -> md[2]/posix/sysdev[255] am am_bw#0
//
// The word am marks the one that carries active messages.
var laneLine = regexp.MustCompile(`lane\[\d+\]:\s+\d+:([a-z0-9_]+)/(\S+?)\.\d+\s.*->.*\sam(\s|$)`)

// laneOf finds the lane in UCX's description of a connection.
func laneOf(info string) (lane, error) {
	for line := range strings.Lines(info) {
		if m := laneLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			return lane{transport: m[1], device: m[2]}, nil
		}
	}
	return lane{}, fmt.Errorf("UCX's description of the connection names no lane for active messages: %q", info)
}

// aliases are the names in UCX_TLS that stand for several transports
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

// asked are the transports that a value of UCX_TLS names. all is true where it
// names everything, or everything but a few.
func asked(tls string) (names []string, all bool) {
	if tls == "" || strings.HasPrefix(tls, "^") {
		return nil, true
	}
	for item := range strings.SplitSeq(tls, ",") {
		item, _, _ = strings.Cut(strings.TrimSpace(item), ":") // ud:aux
		item = strings.TrimPrefix(item, `\`)                   // the very name
		if item == "all" {
			return nil, true
		}
		names = append(names, item)
	}
	return names, false
}

// mayUse says whether a value of UCX_TLS leaves a transport in.
func mayUse(tls, transport string) bool {
	names, all := asked(tls)
	return all || slices.ContainsFunc(names, func(item string) bool { return slices.Contains(expand(item), transport) })
}

func expand(item string) []string {
	if list, is := aliases[item]; is {
		return list
	}
	return []string{item}
}

// resourceLine is how ucp_context_print_info shows a device.
var resourceLine = regexp.MustCompile(`(?m)^#\s+resource\s+\d+\s*:.*--\s+([a-z0-9_]+)/(\S+)`)

// checkResources refuses what was asked for and is not there: UCX would go on
// without it.
func (s *settings) checkResources(contextInfo string) error {
	var here, devices []string
	for _, m := range resourceLine.FindAllStringSubmatch(contextInfo, -1) {
		here, devices = append(here, m[1]), append(devices, m[2])
	}
	return errors.Join(checkTransports(s.tls, here), checkDevices(s.variables["NET_DEVICES"], s.tlsInForce(), devices))
}

// checkDevices looks for each of the devices in a value of UCX_NET_DEVICES. A
// device of InfiniBand may be named without its port.
func checkDevices(asked, tls string, here []string) error {
	if asked == "" || asked == "all" || strings.HasPrefix(asked, "^") {
		return nil
	}
	for item := range strings.SplitSeq(asked, ",") {
		if !slices.ContainsFunc(here, func(device string) bool { return device == item || strings.HasPrefix(device, item+":") }) {
			return refuse(optionDevices, "UCX has no device %q for UCX_TLS=%s; ucx_info -d lists those it has", item, tls)
		}
	}
	return nil
}

// checkTransports looks for each of the transports in a value of UCX_TLS.
func checkTransports(tls string, here []string) error {
	names, all := asked(tls)
	if all {
		return nil
	}
	for _, item := range names {
		if !slices.ContainsFunc(expand(item), func(name string) bool { return slices.Contains(here, name) }) {
			return refuse(optionTLS, "UCX has no transport or device for %q here; ucx_info -d lists those it has", item)
		}
	}
	return nil
}

// checkLane refuses a lane that is not what the options ask for.
func (s *settings) checkLane(l lane) error {
	if s.lane != "" && l.transport != s.lane {
		return refuse(optionLane, "asked for %s, and UCX chose %s among %s", s.lane, l, s.tlsInForce())
	}
	if mayUse(s.tls, l.transport) {
		return nil
	}
	return refuse(optionTLS, "asked for %s, and UCX chose %s", s.tls, l)
}

func (s *settings) tlsInForce() string {
	if s.tls == "" {
		return "all"
	}
	return s.tls
}
