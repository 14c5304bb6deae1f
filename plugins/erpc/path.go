package erpc

import (
	"strings"

	"transportbench/core/transport"
)

// ReadPaths implements [transport.PathReader]: one path over a device, or one for each host that the
// port's peers are on.
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
	for _, p := range w.peers.ByID {
		if p == nil {
			continue
		}
		dst = append(dst, transport.Path{Carrier: transport.MediumUDP, Local: w.ports.address.String(),
			Remote: p.source.Address().String(), Overhead: headerSize, Facts: facts})
	}
	return dst
}
