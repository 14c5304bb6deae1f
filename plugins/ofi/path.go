package ofi

import (
	"cmp"

	"transportbench/core/transport"
)

// maxHeaders is the most bytes that libfabric adds to a message: the headers of a provider and of
// the layer above it, ours, and the messages of a rendezvous.
const maxHeaders = 512

// Silence implements [transport.PathReader]. libfabric does not tell.
func (w *worker) Silence(transport.PeerID) error { return nil }

// ReadPaths implements [transport.PathReader], from the attributes of the interface that libfabric
// opened.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	e, f := w.endpoint, &w.endpoint.fabric
	path := transport.Path{Carrier: cmp.Or(e.medium(), f.Provider), Overhead: maxHeaders,
		Facts: map[string]string{"provider": f.Provider, "fabric": f.Fabric, "domain": f.Domain,
			"endpoint": f.Endpoint, "protocol": f.Protocol}}
	switch path.Carrier {
	case transport.MediumVerbs:
		path.Device = f.Domain // libfabric does not report the port
	case transport.MediumUDP:
		own := hostOf(f.Format, w.library.Address())
		for _, p := range w.Peers.ByID {
			if p == nil {
				continue
			}
			peer := hostOf(f.Format, p.Own.(*peer).library)
			path.Local, path.Remote = addressOf(f).String(), peer.Addr().String()
			path.LocalPort, path.RemotePort = own.Port(), peer.Port()
			dst = append(dst, path)
		}
		return dst
	}
	return append(dst, path)
}
