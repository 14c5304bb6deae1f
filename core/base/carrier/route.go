package carrier

import (
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// hop is where the kernel sends the packets of a connection; the zero hop is no route.
type hop struct {
	link    int        // index of the interface
	gateway netip.Addr // not valid if the other end is on the link
}

// protocols are those whose ports the kernel may hash to choose one of several equal routes.
var protocols = map[string]uint8{transport.MediumTCP: unix.IPPROTO_TCP,
	transport.MediumUDP: unix.IPPROTO_UDP}

// routeOf asks the kernel for its route between two ends. It asks with their ports if it knows them
// and the protocol is not 0, unless the kernel refuses them. A kernel before 4.18 ignores them.
func routeOf(protocol uint8, local, remote netip.AddrPort) hop {
	if protocol != 0 && local.Port() != 0 && remote.Port() != 0 {
		ports := []*nl.RtAttr{
			nl.NewRtAttr(unix.RTA_IP_PROTO, []byte{protocol}),
			nl.NewRtAttr(unix.RTA_SPORT, binary.BigEndian.AppendUint16(nil, local.Port())),
			nl.NewRtAttr(unix.RTA_DPORT, binary.BigEndian.AppendUint16(nil, remote.Port())),
		}
		if h := askRoute(local.Addr(), remote.Addr(), ports); h.link != 0 {
			return h
		}
	}
	return askRoute(local.Addr(), remote.Addr(), nil)
}

func askRoute(local, remote netip.Addr, ports []*nl.RtAttr) (h hop) {
	message := &nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET6, Dst_len: uint8(remote.BitLen())}}
	if remote.Is4() {
		message.Family = unix.AF_INET
	}
	request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_REQUEST)
	request.AddData(message)
	request.AddData(nl.NewRtAttr(unix.RTA_DST, remote.AsSlice()))
	if local.IsValid() && !local.IsUnspecified() && local.Is4() == remote.Is4() {
		message.Src_len = message.Dst_len
		request.AddData(nl.NewRtAttr(unix.RTA_SRC, local.AsSlice()))
	}
	for _, p := range ports {
		request.AddData(p)
	}
	replies, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	if err != nil || len(replies) == 0 {
		return hop{}
	}
	attributes, err := nl.ParseRouteAttr(replies[0][message.Len():])
	if err != nil {
		return hop{}
	}
	for _, a := range attributes {
		switch {
		case a.Attr.Type == unix.RTA_OIF && len(a.Value) >= 4:
			h.link = int(binary.NativeEndian.Uint32(a.Value))
		case a.Attr.Type == unix.RTA_GATEWAY:
			h.gateway, _ = netip.AddrFromSlice(a.Value)
		case a.Attr.Type == unix.RTA_VIA && len(a.Value) > 2: // the gateway's family is another
			h.gateway, _ = netip.AddrFromSlice(a.Value[2:])
		}
	}
	return h
}
