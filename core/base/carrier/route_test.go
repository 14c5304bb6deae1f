package carrier

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"transportbench/core/base/record"
	"transportbench/core/fabric/fabrictest/hosts"
	"transportbench/core/transport"
)

// The addresses of both hosts that are on none of the two wires between them.
var (
	near = netip.MustParseAddr("10.80.0.1")
	far  = netip.MustParseAddr("10.80.0.2")
)

func network(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(32, 32)}
}

// addAddress gives the loopback interface of this thread's namespace an address.
func addAddress(a netip.Addr) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.AddrAdd(lo, &netlink.Addr{IPNet: network(a)})
}

// in runs f on a thread in a host's namespace. A failed requirement of f would end the goroutine
// that Do waits for, so f returns what it found, and the test requires it.
func in[T any](t *testing.T, h *hosts.Host, f func() (T, error)) (found T) {
	t.Helper()
	require.NoError(t, h.Do(func() (err error) {
		found, err = f()
		return err
	}))
	return found
}

// twoRoutes makes two hosts with two equal routes to the second one, between which the kernel
// chooses by ports. It returns the first one's interfaces, with the gateway of each.
func twoRoutes(t *testing.T) (a, b *hosts.Host, interfaces map[string]netip.Addr) {
	t.Helper()
	a, b = hosts.Pair(t, hosts.Wire{})
	hosts.AddSecondWire(t, a, b)
	second := netip.AddrFrom4([4]byte{10, 78, 0, 2})
	require.NoError(t, b.Do(func() error {
		for _, name := range []string{"all", "default"} {
			if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/rp_filter", []byte("0"),
				0); err != nil {
				return err
			}
		}
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links { // answers leave by one wire only
			if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+l.Attrs().Name+"/rp_filter",
				[]byte("0"), 0); err != nil {
				return err
			}
		}
		if err := addAddress(far); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: network(near), Gw: a.Address.AsSlice()})
	}))
	neighbors := in(t, a, func() ([]transport.Path, error) {
		return Describe([]transport.Path{{Carrier: transport.MediumUDP, Remote: b.Address.String()},
			{Carrier: transport.MediumUDP, Remote: second.String()}}), nil
	})
	interfaces = map[string]netip.Addr{}
	for _, p := range neighbors {
		require.Equal(t, "direct", p.Facts[record.FactRoute])
		interfaces[p.Interface] = netip.MustParseAddr(p.Remote)
	}
	require.Len(t, interfaces, 2)
	require.NoError(t, a.Do(func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/fib_multipath_hash_policy", []byte("1"),
			0); err != nil {
			return err
		}
		if err := addAddress(near); err != nil {
			return err
		}
		route := &netlink.Route{Dst: network(far)}
		for name, gateway := range interfaces {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			route.MultiPath = append(route.MultiPath,
				&netlink.NexthopInfo{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice()})
		}
		return netlink.RouteAdd(route)
	}))
	return a, b, interfaces
}

// sentOver returns the interface that sent what f sends, which is more than anything else that goes
// there.
func sentOver(interfaces map[string]netip.Addr, f func() error) (name string, err error) {
	before := readInterfaces()
	if err := f(); err != nil {
		return "", err
	}
	maxSent := uint64(0)
	for i, now := range readInterfaces() {
		if sent := now.Since(before[i]).Sent; interfaces[i].IsValid() && sent > maxSent {
			maxSent, name = sent, i
		}
	}
	return name, nil
}

// sentBytes fill many packets.
const sentBytes = 64 << 10

// TestConnectionsOverTwoRoutes: the kernel spreads the connections between two ends over two wires,
// and each is stated over the wire that its bytes take.
func TestConnectionsOverTwoRoutes(t *testing.T) {
	a, b, interfaces := twoRoutes(t)
	var listener net.Listener
	require.NoError(t, b.Do(func() (err error) {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(far, 0).String())
		return err
	}))
	defer listener.Close()

	const connections = 16 // which take the same wire once in 2^15 boots
	took := map[string]int{}
	paths := in(t, a, func() ([]transport.Path, error) {
		for range connections {
			connection, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: near.AsSlice()}}).Dial(
				"tcp4", listener.Addr().String())
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = connection.Close() })
			accepted, err := listener.Accept()
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = accepted.Close() })
			name, err := sentOver(interfaces, func() error {
				sent := make(chan error, 1)
				go func() { _, err := connection.Write(make([]byte, sentBytes)); sent <- err }()
				_, err := io.ReadFull(accepted, make([]byte, sentBytes))
				return errors.Join(err, <-sent)
			})
			if err != nil {
				return nil, err
			}
			took[name]++
		}
		return Describe([]transport.Path{{Carrier: transport.MediumTCP}}), nil
	})
	stated := map[string]int{}
	for _, p := range paths {
		if p.Local != near.String() {
			continue // of the other host, or of another test
		}
		n, err := strconv.Atoi(p.Facts[record.FactConnections])
		require.NoError(t, err)
		stated[p.Interface] += n
		require.Equal(t, "via "+interfaces[p.Interface].String(), p.Facts[record.FactRoute])
		require.Equal(t, "veth", p.Facts["interface_kind"])
	}
	require.Equal(t, took, stated)
}

// TestDatagramsOverTwoRoutes requires the same of datagrams, whose ports the transport states.
func TestDatagramsOverTwoRoutes(t *testing.T) {
	a, _, interfaces := twoRoutes(t)
	for i := range uint16(16) {
		local, remote := netip.AddrPortFrom(near, 20_000+i), netip.AddrPortFrom(far, 4711)
		var took string
		stated := in(t, a, func() ([]transport.Path, error) {
			socket, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(local),
				net.UDPAddrFromAddrPort(remote))
			if err != nil {
				return nil, err
			}
			defer socket.Close()
			took, err = sentOver(interfaces, func() error {
				for sent := 0; sent < sentBytes; sent += 1024 {
					// Nobody listens, of which the kernel tells every other call.
					_, _ = socket.Write(make([]byte, 1024))
				}
				return nil
			})
			return Describe([]transport.Path{{Carrier: transport.MediumUDP, Local: near.String(),
				Remote:    far.String(),
				LocalPort: local.Port(), RemotePort: remote.Port()}}), err
		})
		require.Len(t, stated, 1)
		require.Equal(t, took, stated[0].Interface, "from port %d", local.Port())
		require.Zero(t, stated[0].LocalPort)
	}
}

// TestOffloads turns segmentation and merging of an interface off and on.
func TestOffloads(t *testing.T) {
	const setSegmentation, setMerging = 0x24, 0x2c // ETHTOOL_SGSO, ETHTOOL_SGRO
	a, b := hosts.Pair(t, hosts.Wire{})
	for _, want := range []map[string]uint32{{"gso": 1, "gro": 0}, {"gso": 0, "gro": 1},
		{"gso": 1, "gro": 1}, {"gso": 0, "gro": 0}} {
		facts := in(t, a, func() (map[string]string, error) {
			stated := []transport.Path{{Carrier: transport.MediumUDP, Local: a.Address.String(),
				Remote: b.Address.String()}}
			name := Describe(stated)[0].Interface
			if _, ok := ethtool(name, setSegmentation, want["gso"]); !ok {
				return nil, errors.New("setting gso of " + name)
			}
			if _, ok := ethtool(name, setMerging, want["gro"]); !ok {
				return nil, errors.New("setting gro of " + name)
			}
			return Describe(stated)[0].Facts, nil
		})
		for fact, on := range want {
			require.Equal(t, []string{"off", "on"}[on], facts[fact], fact)
		}
	}
}
