package sockets

import (
	"strconv"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/transport"
)

// ReadPaths implements [transport.PathReader]. The kernel reports both ends of TCP
// connections, and only the buffers of the others.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	medium := w.settings.network.medium
	if medium == transport.MediumTCP {
		return append(dst, transport.Path{Carrier: medium, Overhead: headerSize})
	}
	for _, p := range w.byIndex {
		if p.State != dial.Up {
			continue
		}
		path := transport.Path{Carrier: medium, Overhead: headerSize, Facts: map[string]string{}}
		for name, option := range map[string]int{"send_buffer": unix.SO_SNDBUF,
			"receive_buffer": unix.SO_RCVBUF} {
			if granted, err := unix.GetsockoptInt(p.fd, unix.SOL_SOCKET, option); err == nil {
				path.Facts[name] = strconv.Itoa(granted)
			}
		}
		dst = append(dst, path)
	}
	return dst
}
