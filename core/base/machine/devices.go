package machine

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// NetworkDevice is a network interface or an RDMA device.
type NetworkDevice struct {
	Name      string       `json:"name"`
	Node      int          `json:"node"`                // NUMA node, -1 if unknown
	Addresses []netip.Addr `json:"addresses,omitempty"` // of an interface
	MTU       int          `json:"mtu,omitempty"`       // of an interface, in bytes
	Speed     int          `json:"speed,omitempty"`     // of an interface, in Mbit/s; 0 if unknown
}

// Interfaces returns the network interfaces of this machine that are up, as far as the kernel
// tells. The node of one is unknown if sysfs shows the interfaces of another network namespace.
func Interfaces() []NetworkDevice {
	interfaces, _ := net.Interfaces() // a sandbox may forbid it
	root := Root("/")
	var devices []NetworkDevice
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		d := NetworkDevice{Name: i.Name, Node: -1, MTU: i.MTU}
		if root.Text(netClass, i.Name, "ifindex") == strconv.Itoa(i.Index) {
			d.Node = root.InterfaceNode(i.Name)
			d.Speed = max(root.number(netClass, i.Name, "speed"), 0)
		}
		addresses, _ := i.Addrs() // none if it is gone
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				d.Addresses = append(d.Addresses, prefix.Addr().Unmap())
			}
		}
		devices = append(devices, d)
	}
	return devices
}

const netClass = "sys/class/net"

// InterfaceNode returns the NUMA node of a network interface, or -1. A bond or a VLAN is on the
// node of the interfaces below it, if that is one.
func (r Root) InterfaceNode(name string) int {
	return r.interfaceNode(name, 0)
}

// maxLayers bounds the interfaces that are stacked on each other.
const maxLayers = 8

func (r Root) interfaceNode(name string, depth int) int {
	if r.Exists(netClass, name, "device") || depth == maxLayers {
		return r.number(netClass, name, "device/numa_node")
	}
	node, known := -1, false
	for _, entry := range r.Names(netClass, name) {
		lower, found := strings.CutPrefix(entry, "lower_")
		if !found {
			continue
		}
		n := r.interfaceNode(lower, depth+1)
		if known && n != node {
			return -1
		}
		node, known = n, true
	}
	return node
}
