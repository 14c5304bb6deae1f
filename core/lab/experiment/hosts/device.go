package hosts

import (
	"net/netip"
	"slices"
	"strings"

	"transportbench/core/base/machine"
	"transportbench/core/transport"
)

// Device returns the network device that carries the traffic of a transport with these options on
// this host. It returns nil if the options do not tell, as where the transport chooses among RDMA
// devices.
func (h *Hello) Device(roles transport.Roles, options map[string]string) *machine.NetworkDevice {
	if name := options[roles.Device]; name != "" {
		return h.named(name)
	}
	rdma := h.Environment.Identity.RDMA
	if roles.Device != "" && roles.Provider != "" && len(rdma) > 0 {
		switch options[roles.Provider] {
		case transport.MediumVerbs:
			if len(rdma) == 1 {
				return h.named(rdma[0].Name)
			}
			return nil
		case "", transport.Auto:
			return nil
		}
	}
	return h.at(options[roles.Address])
}

// Reach returns the address at which other hosts reach this host: the given one, or the one of an
// interface in the given network, or else the one by which the host joined.
func (h *Hello) Reach(text string) netip.Addr {
	if given, err := netip.ParseAddr(text); err == nil && !given.IsUnspecified() {
		return given
	}
	if network, err := netip.ParsePrefix(text); err == nil {
		if d := h.at(text); d != nil {
			return d.Addresses[slices.IndexFunc(d.Addresses,
				func(a netip.Addr) bool { return network.Contains(a.WithZone("")) })]
		}
	}
	return h.Address
}

// named returns the device of a name, which may have a port: mlx5_0:1.
func (h *Hello) named(name string) *machine.NetworkDevice {
	if !strings.Contains(name, ",") {
		name, _, _ = strings.Cut(name, ":")
	}
	for _, d := range h.Interfaces {
		if d.Name == name {
			return &d
		}
	}
	for _, d := range h.Environment.Identity.RDMA {
		if d.Name == name {
			return &machine.NetworkDevice{Name: d.Name, Node: d.Node}
		}
	}
	return nil
}

// at returns the interface with an address, or with the first one in a network.
func (h *Hello) at(text string) *machine.NetworkDevice {
	network, err := netip.ParsePrefix(text)
	if err != nil {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil
		}
		network = netip.PrefixFrom(address.WithZone("").Unmap(), address.Unmap().BitLen())
	}
	i := slices.IndexFunc(h.Interfaces, func(d machine.NetworkDevice) bool {
		return slices.ContainsFunc(d.Addresses,
			func(a netip.Addr) bool { return network.Contains(a.WithZone("")) })
	})
	if i < 0 {
		return nil
	}
	return &h.Interfaces[i]
}
