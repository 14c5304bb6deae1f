package hosts

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"transportbench/core/fabric/netspace"
)

// wireName is the name of the interface at each end.
const wireName = "wire"

// Wire describes the wire between two hosts.
type Wire struct {
	// Rate limits each direction, in bytes per second; 0 is no limit.
	Rate uint64
	// Queue is the size in bytes of the queue before a limited wire; 0 is 256 KiB.
	Queue uint32
	// MTU of the interfaces in bytes; 0 is 1500, as on Ethernet.
	MTU int
}

// Host is one of the two hosts.
type Host struct {
	Address  netip.Addr // IPv4
	Address6 netip.Addr
	space    *netspace.Space
}

// Pair makes two hosts, which end with the test. If the machine or the user's privileges do not
// allow it, Pair skips the test; it fails the test instead if CI_REQUIRE_NAMESPACES is set.
func Pair(t testing.TB, w Wire) (a, b *Host) {
	t.Helper()
	if w.Queue == 0 {
		w.Queue = 256 << 10
	}
	if w.MTU == 0 {
		w.MTU = 1500
	}
	cannot := t.Skipf
	if os.Getenv("CI_REQUIRE_NAMESPACES") != "" {
		cannot = t.Fatalf
	}
	var both [2]*Host
	for i := range both {
		h, err := newHost(byte(i + 1))
		if err != nil {
			cannot("making two hosts: network namespaces need CAP_SYS_ADMIN: %v", err)
		}
		both[i] = h
		t.Cleanup(func() { _ = h.space.Close() })
	}
	if err := join(both, w); err != nil {
		cannot("joining two hosts: the kernel needs veth and, for a limited rate, the queueing "+
			"discipline tbf: %v", err)
	}
	return both[0], both[1]
}

// secondName is the name of the interface at each end of the second wire.
const secondName = "second"

// second returns the address of the host's end of the second wire.
func (h *Host) second() netip.Addr {
	a := h.Address.As4()
	a[1]++
	return netip.AddrFrom4(a)
}

// AddSecondWire joins the hosts by one more wire with addresses in 10.78.0.0/24. It carries nothing
// of the first one's addresses until Reroute.
func AddSecondWire(t testing.TB, a, b *Host) {
	t.Helper()
	require.NoError(t, netspace.Join(netspace.Wire{Space: a.space, Name: secondName},
		netspace.Wire{Space: b.space, Name: secondName}, 0))
	for _, h := range []*Host{a, b} {
		require.NoError(t, h.space.Up(secondName, netip.PrefixFrom(h.second(), 24)))
	}
}

// Reroute sends this host's packets to the other one over the second wire.
func (h *Host) Reroute(to *Host) error {
	return h.space.With(secondName, func(handle *netlink.Handle, link netlink.Link) error {
		return handle.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index,
			Scope: netlink.SCOPE_LINK, Src: h.Address.AsSlice(),
			Dst: &net.IPNet{IP: to.Address.AsSlice(), Mask: net.CIDRMask(32, 32)}})
	})
}

func newHost(number byte) (h *Host, err error) {
	h = &Host{Address: netip.AddrFrom4([4]byte{10, 77, 0, number}),
		Address6: netip.MustParseAddr(fmt.Sprintf("fd77::%d", number))}
	h.space, err = netspace.New()
	return h, err
}

// join connects the hosts.
func join(hosts [2]*Host, w Wire) error {
	if err := netspace.Join(netspace.Wire{Space: hosts[0].space, Name: wireName},
		netspace.Wire{Space: hosts[1].space, Name: wireName}, w.MTU); err != nil {
		return err
	}
	for _, h := range hosts {
		if err := h.up(w); err != nil {
			return err
		}
	}
	return nil
}

// up configures a host's end of the wire.
func (h *Host) up(w Wire) error {
	addresses := []netip.Prefix{netip.PrefixFrom(h.Address, 24)}
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil { // the kernel has IPv6
		addresses = append(addresses, netip.PrefixFrom(h.Address6, 64))
	}
	err := h.space.Up(wireName, addresses...)
	if err != nil || w.Rate == 0 {
		return err
	}
	return h.space.With(wireName, func(handle *netlink.Handle, wire netlink.Link) error {
		// A burst must have room for a segmented message, which the kernel sends as one.
		return handle.QdiscAdd(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: wire.Attrs().Index,
				Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate: w.Rate, Limit: w.Queue,
			Buffer: uint32(float64(128<<10) /
				float64(w.Rate) * netlink.TIME_UNITS_PER_SEC * netlink.TickInUsec()),
		})
	})
}

// Path returns the namespace's file for nsenter(1). It is valid until the test ends.
func (h *Host) Path() string { return h.space.Path() }

// Do runs f on a thread in the host's namespace. Sockets that f opens stay in the namespace.
func (h *Host) Do(f func() error) error { return h.space.Do(f) }

// SetWire brings the host's end of the wire up or takes it down. While it is down the host has no
// route to the other one, which has no carrier.
func (h *Host) SetWire(up bool) error {
	if up {
		return h.space.With(wireName, (*netlink.Handle).LinkSetUp)
	}
	return h.space.With(wireName, (*netlink.Handle).LinkSetDown)
}

// CutWire takes the host's end of the wire down and brings it up again after d.
func (h *Host) CutWire(d time.Duration) (err error) {
	defer func() { err = errors.Join(err, h.SetWire(true)) }()
	if err := h.SetWire(false); err != nil {
		return err
	}
	time.Sleep(d)
	return nil
}

// Carried returns the number of bytes that the host has received over the wire.
func (h *Host) Carried() (bytes uint64, err error) {
	err = h.space.With(wireName, func(_ *netlink.Handle, wire netlink.Link) error {
		bytes = wire.Attrs().Statistics.RxBytes
		return nil
	})
	return bytes, err
}
