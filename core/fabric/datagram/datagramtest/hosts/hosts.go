package hosts

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
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
	space    netns.NsHandle
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
		cannot("joining two hosts: the kernel needs veth and, for a limited rate, the queueing discipline tbf: %v", err)
	}
	return both[0], both[1]
}

// secondName is the name of the interface at each end of the second wire.
const secondName = "second"

// AddSecondWire joins the hosts by one more wire, which carries nothing until Reroute.
func AddSecondWire(t testing.TB, a, b *Host) {
	t.Helper()
	here, err := netlink.NewHandleAt(a.space)
	require.NoError(t, err)
	defer here.Close()
	require.NoError(t, here.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: secondName}, PeerName: secondName,
		PeerNamespace: netlink.NsFd(b.space)}))
	for _, h := range []*Host{a, b} {
		require.NoError(t, h.with(secondName, func(handle *netlink.Handle, link netlink.Link) error {
			return handle.LinkSetUp(link)
		}))
	}
}

// Reroute sends this host's packets to the other one over the second wire.
func (h *Host) Reroute(to *Host) error {
	return h.with(secondName, func(handle *netlink.Handle, link netlink.Link) error {
		return handle.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Src: h.Address.AsSlice(),
			Dst: &net.IPNet{IP: to.Address.AsSlice(), Mask: net.CIDRMask(32, 32)}})
	})
}

// with calls f with one of the host's interfaces.
func (h *Host) with(name string, f func(*netlink.Handle, netlink.Link) error) error {
	handle, err := netlink.NewHandleAt(h.space)
	if err != nil {
		return err
	}
	defer handle.Close()
	link, err := handle.LinkByName(name)
	if err != nil {
		return err
	}
	return f(handle, link)
}

// newHost makes a network namespace on a thread that exits afterwards.
func newHost(number byte) (h *Host, err error) {
	h = &Host{Address: netip.AddrFrom4([4]byte{10, 77, 0, number}),
		Address6: netip.MustParseAddr(fmt.Sprintf("fd77::%d", number))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread cannot be used for anything else
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return
		}
		h.space, err = netns.Get()
	}()
	<-done
	return h, err
}

// join connects the hosts.
func join(hosts [2]*Host, w Wire) error {
	here, err := netlink.NewHandleAt(hosts[0].space)
	if err != nil {
		return err
	}
	defer here.Close()
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: wireName, MTU: w.MTU}, PeerName: wireName, PeerMTU: uint32(w.MTU),
		PeerNamespace: netlink.NsFd(hosts[1].space)}
	if err := here.LinkAdd(pair); err != nil {
		return fmt.Errorf("making a veth pair: %w", err)
	}
	for _, h := range hosts {
		if err := h.up(w); err != nil {
			return err
		}
	}
	return nil
}

// up configures a host's interfaces and brings them up.
func (h *Host) up(w Wire) error {
	handle, err := netlink.NewHandleAt(h.space)
	if err != nil {
		return err
	}
	defer handle.Close()
	loopback, err := handle.LinkByName("lo")
	if err != nil {
		return err
	}
	wire, err := handle.LinkByName(wireName)
	if err != nil {
		return err
	}
	errs := []error{handle.LinkSetUp(loopback)}
	addresses := []netip.Prefix{netip.PrefixFrom(h.Address, 24)}
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil { // the kernel has IPv6
		addresses = append(addresses, netip.PrefixFrom(h.Address6, 64))
	}
	for _, a := range addresses {
		// Duplicate address detection would delay the address.
		errs = append(errs, handle.AddrAdd(wire, &netlink.Addr{Flags: unix.IFA_F_NODAD,
			IPNet: &net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}}))
	}
	if errs = append(errs, handle.LinkSetUp(wire)); w.Rate > 0 {
		// A burst must have room for a segmented message, which the kernel sends as one.
		errs = append(errs, handle.QdiscAdd(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: wire.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       w.Rate, Limit: w.Queue, Buffer: uint32(float64(128<<10) / float64(w.Rate) * netlink.TIME_UNITS_PER_SEC * netlink.TickInUsec()),
		}))
	}
	return errors.Join(errs...)
}

// Path returns the namespace's file for nsenter(1). It is valid until the test ends.
func (h *Host) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(h.space)) }

// Do runs f on a thread in the host's namespace. Sockets that f opens stay in the namespace.
func (h *Host) Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err == nil {
			err = netns.Set(h.space)
		}
		if err != nil {
			done <- err
			return // and the thread exits
		}
		err = f()
		if back := errors.Join(netns.Set(home), home.Close()); back == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// SetWire brings the host's end of the wire up or takes it down. While it is down the host has no
// route to the other one, which has no carrier.
func (h *Host) SetWire(up bool) error {
	handle, err := netlink.NewHandleAt(h.space)
	if err != nil {
		return err
	}
	defer handle.Close()
	wire, err := handle.LinkByName(wireName)
	if err != nil {
		return err
	}
	if up {
		return handle.LinkSetUp(wire)
	}
	return handle.LinkSetDown(wire)
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
func (h *Host) Carried() (uint64, error) {
	handle, err := netlink.NewHandleAt(h.space)
	if err != nil {
		return 0, err
	}
	defer handle.Close()
	wire, err := handle.LinkByName(wireName)
	if err != nil {
		return 0, err
	}
	return wire.Attrs().Statistics.RxBytes, nil
}
