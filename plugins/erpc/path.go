package erpc

import (
	"net/netip"
	"strings"

	"transportbench/core/transport"
)

// ReadPaths implements [transport.PathReader]: one path over a device, or one for each peer of
// the port.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	if device := w.ports.device; device != nil {
		p := device.Attributes().Path()
		p.Overhead = headerSize
		return append(dst, p)
	}
	facts := map[string]string{}
	for name, value := range w.port.Notes() {
		if name != "address" { // with the port's number
			facts[strings.ReplaceAll(name, "-", "_")] = value
		}
	}
	facts["datagram_bytes"] = facts["mtu"]
	delete(facts, "mtu") // the interface's
	own, _ := netip.ParseAddrPort(w.port.Notes()["address"])
	for _, p := range w.peers.ByID {
		if p == nil {
			continue
		}
		dst = append(dst, transport.Path{Carrier: transport.MediumUDP,
			Local:  w.ports.address.String(),
			Remote: p.source.Address().String(), LocalPort: own.Port(),
			RemotePort: uint16(p.source.Port), Overhead: headerSize, Facts: facts})
	}
	return dst
}
