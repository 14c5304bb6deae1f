package devmem

import (
	"encoding/binary"
	"net"
	"runtime"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Attributes of RTM_NEWLINK, from include/uapi/linux/if_link.h and veth.h.
const (
	linkName     = 3  // IFLA_IFNAME
	linkInfo     = 18 // IFLA_LINKINFO
	linkTX       = 31 // IFLA_NUM_TX_QUEUES
	linkRX       = 32 // IFLA_NUM_RX_QUEUES
	linkKind     = 1  // IFLA_INFO_KIND
	linkData     = 2  // IFLA_INFO_DATA
	linkVethPeer = 1  // VETH_INFO_PEER
)

// namespace moves the test to a new network namespace. The thread is never unlocked, so it and
// the namespace end with the test. The test must not have subtests.
func namespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace can be made: %v (run as root)", err)
	}
}

// link sends an RTM_NEWLINK for the interface with an index, or for a new one.
func link(t *testing.T, index int, flags netlink.HeaderFlags,
	attributes func(*netlink.AttributeEncoder)) {
	t.Helper()
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	ae := netlink.NewAttributeEncoder()
	attributes(ae)
	data, err := ae.Encode()
	require.NoError(t, err)
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWLINK,
			Flags: netlink.Request | netlink.Acknowledge | flags},
		Data: append(header(index), data...),
	})
	require.NoError(t, err)
}

// header returns a struct ifinfomsg that sets an interface up, or creates one that is down.
func header(index int) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	if index == 0 {
		return b
	}
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint32(b[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(b[12:], unix.IFF_UP)
	return b
}

func setUp(t *testing.T, name string) {
	t.Helper()
	i, err := net.InterfaceByName(name)
	require.NoError(t, err)
	link(t, i.Index, 0, func(*netlink.AttributeEncoder) {})
}

// makeVeth makes a veth pair with this many queues each.
func makeVeth(t *testing.T, name, peer string, queues uint32) {
	t.Helper()
	one := func(ae *netlink.AttributeEncoder, name string) {
		ae.String(linkName, name)
		ae.Uint32(linkTX, queues)
		ae.Uint32(linkRX, queues)
	}
	link(t, 0, netlink.Create|netlink.Excl, func(ae *netlink.AttributeEncoder) {
		one(ae, name)
		ae.Nested(linkInfo, func(ae *netlink.AttributeEncoder) error {
			ae.String(linkKind, "veth")
			ae.Nested(linkData, func(ae *netlink.AttributeEncoder) error {
				ae.Do(linkVethPeer, func() ([]byte, error) {
					peerAttributes := netlink.NewAttributeEncoder()
					one(peerAttributes, peer)
					data, err := peerAttributes.Encode()
					return append(header(0), data...), err
				})
				return nil
			})
			return nil
		})
	})
	setUp(t, name)
	setUp(t, peer)
}

// makeTap makes a tap with this many queues, which exists until the test ends.
func makeTap(t *testing.T, name string, queues int) {
	t.Helper()
	for range queues {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Skipf("no tap can be made: /dev/net/tun: %v", err)
		}
		t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
		request, err := unix.NewIfreq(name)
		require.NoError(t, err)
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_MULTI_QUEUE)
		require.NoError(t, unix.IoctlIfreq(fd, unix.TUNSETIFF, request))
	}
	setUp(t, name)
}
