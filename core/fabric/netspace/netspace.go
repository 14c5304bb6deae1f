package netspace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Space is a network namespace. It lasts until Close, and until no process is in it.
type Space struct{ handle netns.NsHandle }

// New makes a namespace whose loopback interface is up. It needs CAP_SYS_ADMIN.
func New() (*Space, error) {
	s := &Space{handle: netns.None()}
	err := onThread(func() (err error) {
		// The thread ends with the goroutine, which does not unlock it.
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		s.handle, err = netns.Get()
		return err
	})
	if err == nil {
		err = s.With("lo", (*netlink.Handle).LinkSetUp)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// onThread runs f on a thread that is locked to it.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// Close gives the namespace up.
func (s *Space) Close() error {
	if !s.handle.IsOpen() {
		return nil
	}
	return s.handle.Close()
}

// Path returns the namespace's file, as nsenter(1) takes it. It is valid until Close.
func (s *Space) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(s.handle)) }

// Do runs f on a thread in the namespace. What f opens there stays in the namespace.
func (s *Space) Do(f func() error) error {
	return onThread(func() error {
		home, err := netns.Get()
		if err == nil {
			err = netns.Set(s.handle)
		}
		if err != nil {
			return err // and the thread ends
		}
		err = f()
		if back := errors.Join(netns.Set(home), home.Close()); back == nil {
			runtime.UnlockOSThread()
		}
		return err
	})
}

// With calls f with one of the namespace's interfaces.
func (s *Space) With(name string, f func(*netlink.Handle, netlink.Link) error) error {
	handle, err := netlink.NewHandleAt(s.handle, unix.NETLINK_ROUTE)
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

// Wire is a new interface of a namespace at one end of a wire.
type Wire struct {
	Space *Space
	Name  string
}

// Join makes a wire between two namespaces: a veth pair, whose interfaces are down.
func Join(a, b Wire, mtu int) error {
	handle, err := netlink.NewHandleAt(a.Space.handle, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer handle.Close()
	if err := handle.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: a.Name, MTU: mtu},
		PeerName: b.Name, PeerMTU: uint32(mtu),
		PeerNamespace: netlink.NsFd(b.Space.handle)}); err != nil {
		return fmt.Errorf("making a veth pair: %w", err)
	}
	return nil
}

// Up gives an interface its addresses and brings it up.
func (s *Space) Up(name string, addresses ...netip.Prefix) error {
	return s.With(name, func(handle *netlink.Handle, link netlink.Link) (err error) {
		for _, a := range addresses {
			// Duplicate address detection would delay the address.
			err = errors.Join(err, handle.AddrAdd(link, &netlink.Addr{Flags: unix.IFA_F_NODAD,
				IPNet: &net.IPNet{IP: a.Addr().AsSlice(),
					Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}}))
		}
		return errors.Join(err, handle.LinkSetUp(link))
	})
}
