package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"

	"transportbench/core/base/netem"
	"transportbench/core/fabric/netspace"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// Prefix has the addresses of the ranks: rank r has 10.79.0.(r+1).
const Prefix = "10.79.0.0/24"

// wireName is the name of the interface in each rank's namespace.
const wireName = "wire"

const (
	// queueLimit is how many packets of a rank may wait for the limited rate.
	queueLimit = 1000
	// delayLimit is how many packets of a rank may be on their way after that: 1.2 Gbit/s of full
	// packets, or 100,000 packets a second, for the longest delay of a second.
	delayLimit = 100_000
)

// opened counts the networks of this process. Each launch has losses of its own, so that the
// repeats of a run show how much they matter.
var opened atomic.Uint64

// Network is the network of the ranks of one launch at a time.
type Network struct {
	mechanism   result.Mechanism
	impairments netem.Impairments
	seed        uint64

	mu     sync.Mutex
	spaces []*netspace.Space // by rank
	wires  wires             // nil unless the network is open
}

// wires join the namespaces of ranks and impair what they send.
type wires interface {
	// ready waits until the wires pass packets, once the interfaces are up.
	ready() error
	counters() result.NetworkCounters
	close()
}

// New returns a network, which exists from Open to Close.
func New(mechanism result.Mechanism, impairments netem.Impairments, seed uint64) *Network {
	return &Network{mechanism: mechanism, impairments: impairments, seed: seed}
}

// Find returns the mechanism of networks here: netem if the kernel has it, else the relay. It
// returns an error that is [transport.ErrUnavailable] if the machine or the user's privileges allow
// neither.
func Find() (result.Mechanism, error) {
	var err error
	for _, m := range []result.Mechanism{result.Netem, result.Relay} {
		n := New(m, netem.Impairments{Rate: 1e9}, 0) // with all parts of a network
		if err = n.Open(3); err == nil {
			n.Close()
			return m, nil
		}
	}
	return "", fmt.Errorf("--network: %w", transport.Unavailable(
		"%v: it needs network namespaces, and netem or TAP interfaces; run as root or with "+
			"CAP_NET_ADMIN and CAP_SYS_ADMIN, and with sch_netem, veth and bridge in the kernel "+
			"or with /dev/net/tun (modprobe tun)", err))
}

// Open makes the namespaces of a number of ranks and joins them.
func (n *Network) Open(ranks int) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("--network: %w", err)
			n.remove()
		}
	}()
	for range ranks {
		space, err := netspace.New()
		if err != nil {
			return err
		}
		n.spaces = append(n.spaces, space)
	}
	if n.mechanism == result.Netem {
		n.wires, err = newKernelWires(n.spaces, n.impairments)
	} else {
		n.wires, err = newRelay(n.spaces, n.impairments, n.seed+opened.Add(1))
	}
	for r, space := range n.spaces {
		if err == nil {
			err = configure(space, r, ranks)
		}
	}
	if err == nil {
		err = n.wires.ready()
	}
	return err
}

// Close removes the network. It does nothing if the network is not open.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remove()
}

func (n *Network) remove() {
	if n.wires != nil {
		n.wires.close()
		n.wires = nil
	}
	for _, space := range n.spaces {
		_ = space.Close()
	}
	n.spaces = nil
}

// Space returns the file of a rank's namespace, which is valid while the network is open; it is
// empty if the network is not.
func (n *Network) Space(rank int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if rank >= len(n.spaces) {
		return ""
	}
	return n.spaces[rank].Path()
}

// Counters returns what the network has done since Open.
func (n *Network) Counters() result.NetworkCounters {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wires == nil {
		return result.NetworkCounters{}
	}
	return n.wires.counters()
}

// configure gives a rank's interface its addresses. The rank knows the others' Ethernet addresses,
// so that no ARP is lost or delayed.
func configure(space *netspace.Space, rank, ranks int) error {
	err := space.With(wireName, func(handle *netlink.Handle, wire netlink.Link) error {
		// Of IPv6 there are no packets then. A kernel without IPv6 refuses it.
		_ = handle.LinkSetIP6AddrGenMode(wire, addressesNone)
		return handle.LinkSetHardwareAddr(wire, mac(rank))
	})
	if err == nil {
		err = space.Up(wireName, netip.PrefixFrom(address(rank), 24))
	}
	if err != nil {
		return err
	}
	return space.With(wireName, func(handle *netlink.Handle, wire netlink.Link) (err error) {
		for other := range ranks {
			if other != rank {
				err = errors.Join(err, handle.NeighSet(&netlink.Neigh{LinkIndex: wire.Attrs().Index,
					State: netlink.NUD_PERMANENT,
					IP:    address(other).AsSlice(), HardwareAddr: mac(other)}))
			}
		}
		return err
	})
}

// addressesNone is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
const addressesNone = 1

func address(rank int) netip.Addr { return netip.AddrFrom4([4]byte{10, 79, 0, byte(rank + 1)}) }

// mac returns the Ethernet address of a rank, which is locally administered.
func mac(rank int) net.HardwareAddr { return net.HardwareAddr{0x02, 0x74, 0x62, 0, 0, byte(rank)} }
