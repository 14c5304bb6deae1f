package tcpx

import "transportbench/core/transport"

// mostHeaders is the most bytes that a message takes besides its payload: its header, and a record
// on the control socket for each of its steps.
const mostHeaders = 8 * recordSize

// ReadPaths implements [transport.PathReader]. The kernel knows both ends of the connections.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	p := transport.Path{Carrier: transport.MediumTCP, Overhead: mostHeaders,
		Facts: map[string]string{"mode": w.settings.mode.name}}
	if w.settings.mode.name == modeDevmem {
		p.Facts["device_memory_of"] = w.settings.options.String("interface")
	}
	return append(dst, p)
}
