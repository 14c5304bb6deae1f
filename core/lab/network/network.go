package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/lab/result"
	"transportbench/core/transport"
)

// Prefix has the addresses of the ranks: rank r has 10.79.0.(r+1).
const Prefix = "10.79.0.0/24"

// tapName is the name of the interface in each namespace.
const tapName = "wire"

// Network is the network of the ranks of one launch at a time.
type Network struct {
	impairments config.Impairments
	seed        uint64

	mu     sync.Mutex
	spaces []netns.NsHandle // by rank
	relay  *relay
}

// New returns a network, which exists from Open to Close.
func New(impairments config.Impairments, seed uint64) *Network {
	return &Network{impairments: impairments, seed: seed}
}

// Available returns an error that is [transport.ErrUnavailable] if the machine or the user's privileges
// do not allow a network.
func Available() error {
	n := New(config.Impairments{}, 0)
	defer n.Close()
	return n.Open(1)
}

// Open makes the namespaces of a number of ranks and joins them. It returns an error that is
// [transport.ErrUnavailable] if the machine or the user's privileges do not allow it.
func (n *Network) Open(ranks int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var taps []int
	for r := range ranks {
		space, tap, err := newSpace(r)
		if err != nil {
			closeAll(n.spaces, taps)
			n.spaces = nil
			if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
				return fmt.Errorf("--network: %w", transport.Unavailable("%v: it needs network namespaces and TAP interfaces; run as root or with CAP_NET_ADMIN and CAP_SYS_ADMIN, and with /dev/net/tun (modprobe tun)", err))
			}
			return fmt.Errorf("--network: rank %d: %w", r, err)
		}
		n.spaces, taps = append(n.spaces, space), append(taps, tap)
	}
	relay, err := startRelay(taps, n.impairments, n.seed)
	if err != nil {
		closeAll(n.spaces, taps)
		n.spaces = nil
		return fmt.Errorf("--network: %w", err)
	}
	n.relay = relay
	return nil
}

func closeAll(spaces []netns.NsHandle, taps []int) {
	for _, tap := range taps {
		_ = unix.Close(tap)
	}
	for i := range spaces {
		_ = spaces[i].Close()
	}
}

// Close removes the network. It does nothing if the network is not open.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.relay != nil {
		n.relay.stop()
		n.relay = nil
	}
	closeAll(n.spaces, nil)
	n.spaces = nil
}

// Space returns the file of a rank's namespace, which is valid while the network is open; it is empty
// if the network is not.
func (n *Network) Space(rank int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if rank >= len(n.spaces) {
		return ""
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(n.spaces[rank]))
}

// Counters returns what the network has done since Open.
func (n *Network) Counters() result.NetworkCounters {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.relay == nil {
		return result.NetworkCounters{}
	}
	c := n.relay.counters()
	for _, space := range n.spaces {
		c.Overflowed += unread(space)
	}
	return c
}

// unread returns how many packets of a rank were dropped before the relay could read them.
func unread(space netns.NsHandle) uint64 {
	handle, err := netlink.NewHandleAt(space)
	if err != nil {
		return 0
	}
	defer handle.Close()
	link, err := handle.LinkByName(tapName)
	if err != nil || link.Attrs().Statistics == nil {
		return 0
	}
	return link.Attrs().Statistics.TxDropped
}

// newSpace makes the namespace of a rank and its interface, on a thread that ends afterwards.
func newSpace(rank int) (space netns.NsHandle, tap int, err error) {
	space, tap = netns.None(), -1
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread is in the new namespace
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = os.NewSyscallError("unshare", err)
			return
		}
		if tap, err = openTAP(); err != nil {
			return
		}
		if err = configure(rank); err == nil {
			space, err = netns.Get()
		}
	}()
	<-done
	if err != nil && tap >= 0 {
		_ = unix.Close(tap)
	}
	return space, tap, err
}

// openTAP makes the interface of this thread's namespace.
func openTAP() (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	request, err := unix.NewIfreq(tapName)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = os.NewSyscallError("ioctl TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, request))
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// configure gives the interfaces of this thread's namespace their addresses.
func configure(rank int) error {
	// A handle belongs to the namespace of the thread that makes it.
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer handle.Close()
	loopback, err := handle.LinkByName("lo")
	if err != nil {
		return err
	}
	tap, err := handle.LinkByName(tapName)
	if err != nil {
		return err
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 79, 0, byte(rank+1)).To4(), Mask: net.CIDRMask(24, 32)}}
	return errors.Join(handle.LinkSetUp(loopback), handle.LinkSetHardwareAddr(tap, mac(rank)),
		handle.AddrAdd(tap, address), handle.LinkSetUp(tap))
}

// mac returns the Ethernet address of a rank, which is locally administered.
func mac(rank int) net.HardwareAddr { return net.HardwareAddr{0x02, 0x74, 0x62, 0, 0, byte(rank)} }
