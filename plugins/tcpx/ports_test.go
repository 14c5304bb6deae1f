package tcpx

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// hostOf returns a loopback address that only this process uses, so that tests can fix ports
// on it.
func hostOf(n int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid>>8%250, pid&0xff, n)
}

const testPort = 5201

// openOn opens the transport on such an address, with a fixed port for data sockets.
func openOn(t *testing.T, host, workers int) transport.Transport {
	t.Helper()
	values, err := transport.ParseOptions(schema, map[string]string{"address": hostOf(host),
		"data-port": fmt.Sprint(testPort), "sockets": "3"})
	require.NoError(t, err)
	tr, err := Driver{}.Open(context.Background(), transport.Config{Workers: workers, Peers: 1,
		InFlight: 4, MaxPayload: 1 << 20, Options: values})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return tr
}

func newTestWorker(t *testing.T, tr transport.Transport, index int) *worker {
	t.Helper()
	w, err := tr.NewWorker(index)
	require.NoError(t, err)
	return w.(*worker)
}

// peerOf returns the address of the far end of an IPv4 socket.
func peerOf(t *testing.T, fd int) *unix.SockaddrInet4 {
	t.Helper()
	far, err := unix.Getpeername(fd)
	require.NoError(t, err)
	return far.(*unix.SockaddrInet4)
}

// bound returns a socket that is bound and not connected, and its port.
func bound(t *testing.T, w *worker) (fd int, port uint16) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: w.settings.sock.Address.As4()}))
	port, err = sock.LocalPort(fd)
	require.NoError(t, err)
	return fd, port
}

// dialData connects a bound socket to the port for data sockets.
func dialData(t *testing.T, w *worker, fd int) {
	t.Helper()
	a, err := w.settings.decodeAddress(w.Address())
	require.NoError(t, err)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: a.At.Addr().As4(),
		Port: int(a.dataAddress(0).Port())}); err != unix.EINPROGRESS {
		require.NoError(t, err)
	}
}

// ends returns the ports of both ends of a socket, that of the listening side first.
func ends(t *testing.T, fd int, dialled bool) (listened, other uint16) {
	t.Helper()
	own, err := sock.LocalPort(fd)
	require.NoError(t, err)
	far := peerOf(t, fd)
	if dialled {
		return uint16(far.Port), own
	}
	return own, uint16(far.Port)
}

// TestDataPort: data sockets have the fixed port at one end, and no other sockets have it; they
// carry nothing but payload. Each worker has a port of its own, and a second run directly after
// the first can use the same ports.
func TestDataPort(t *testing.T) {
	for range 2 {
		one, two := openOn(t, 1, 2), openOn(t, 2, 2)
		for i := range 2 {
			a, b := newTestWorker(t, one, i), newTestWorker(t, two, i)
			meet(t, a, b)
			for _, w := range []*worker{a, b} {
				dialled := slices.Compare(w.own[:], w.peers.Get(0).address.Nonce) < 0
				c := w.peers.Get(0).conn
				listened, other := ends(t, c.ControlFD(), dialled)
				require.NotContains(t, []uint16{testPort, testPort + 1}, listened)
				require.NotContains(t, []uint16{testPort, testPort + 1}, other)
				for lane := range len(c.Sockets()) - 1 {
					listened, other := ends(t, c.Sockets()[1+lane], dialled)
					require.Equal(t, uint16(testPort+i), listened)
					require.NotContains(t, []uint16{testPort, testPort + 1}, other)
					info, err := unix.GetsockoptTCPInfo(c.Sockets()[1+lane], unix.IPPROTO_TCP,
						unix.TCP_INFO)
					require.NoError(t, err)
					require.Zero(t, info.Bytes_received, "before there is a message")
				}
			}
			// The lanes have the same order on both sides.
			for lane := range len(a.peers.Get(0).conn.Sockets()) - 1 {
				near, far := a.peers.Get(0).conn.Sockets()[1+lane],
					b.peers.Get(0).conn.Sockets()[1+lane]
				own, err := unix.Getsockname(near)
				require.NoError(t, err)
				require.Equal(t, own, unix.Sockaddr(peerOf(t, far)))
			}
			oneCall(t, a, b, 1<<20)
		}
		require.NoError(t, one.Close())
		require.NoError(t, two.Close())
	}
}

// TestMoreAddresses: data sockets are dealt out over the addresses, on both sides in the same
// order, and two of them may come from the same port of different addresses.
func TestMoreAddresses(t *testing.T) {
	options := map[string]string{"more-addresses": "127.0.0.2+127.0.0.3", "sockets": "4"}
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 8 << 20},
		options)
	for _, w := range []*worker{a, b} {
		if slices.Compare(w.own[:], w.peers.Get(0).address.Nonce) > 0 {
			continue
		}
		for lane, to := range []byte{1, 2, 3, 1} { // of the side that dialled
			require.Equal(t, [4]byte{127, 0, 0, to},
				peerOf(t, w.peers.Get(0).conn.Sockets()[1+lane]).Addr)
		}
	}
	oneCall(t, a, b, 8<<20)
	for lane := range len(a.peers.Get(0).conn.Sockets()) - 1 {
		info, err := unix.GetsockoptTCPInfo(a.peers.Get(0).conn.Sockets()[1+lane], unix.IPPROTO_TCP,
			unix.TCP_INFO)
		require.NoError(t, err)
		require.Greater(t, info.Bytes_received+info.Bytes_acked, uint64(1<<20), "lane %d", lane)
	}

	o := origin{address: netip.MustParseAddr("127.0.0.1"),
		others: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.2:9")},
		ports:  [maxSockets]uint16{7, 7, 8}}
	at := func(from string, listener int) int {
		return o.index(dataSocket{from: netip.MustParseAddrPort(from), listener: listener}, 2)
	}
	require.Equal(t, []int{0, 1, 2, -1, -1}, []int{at("127.0.0.1:7", 0), at("127.0.0.2:7", 1),
		at("127.0.0.1:8", 0), at("127.0.0.1:8", 1), at("127.0.0.3:7", 0)})

	fewer, _ := openWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 8 << 20},
		map[string]string{"sockets": "4"})
	another, _ := openWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 8 << 20},
		options)
	require.ErrorContains(t, another.Connect(t.Context(), 0, fewer.Address()),
		"data sockets have 3 addresses here, and the peer has announced 1")
}

// TestOverIPv6: data sockets are matched over IPv6, too.
func TestOverIPv6(t *testing.T) {
	options := map[string]string{"address": "::1", "sockets": "2"}
	listener, _, err := testSettings(t, options).listen(netip.MustParseAddr("::1"), 0)
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	require.NoError(t, unix.Close(listener))
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 100}, options)
	oneCall(t, a, b, 100)
}

// TestDataPortTaken: the error names the option, the port and the remedy.
func TestDataPortTaken(t *testing.T) {
	newTestWorker(t, openOn(t, 3, 1), 0)
	_, err := openOn(t, 3, 1).NewWorker(0)
	var wrong *transport.OptionError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "data-port", wrong.Option)
	require.Contains(t, wrong.Problem, fmt.Sprintf("port %d of %s is taken", testPort, hostOf(3)))
	require.Contains(t, wrong.Problem, "or 0 for any")
}

// TestDataPortRange: the port of the last worker must be valid, too.
func TestDataPortRange(t *testing.T) {
	values, err := transport.ParseOptions(schema, map[string]string{"data-port": "65534"})
	require.NoError(t, err)
	s, err := resolve(transport.Config{Workers: 2, Options: values})
	require.NoError(t, err)
	require.Equal(t, 65534, s.dataPort)
	_, err = resolve(transport.Config{Workers: 3, Options: values})
	var wrong *transport.OptionError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "data-port", wrong.Option)
	require.Contains(t, wrong.Problem, "use 65533 or less")
}

// TestMatchData: data sockets are matched by the ports in the hello, whether they come
// before it or after it.
func TestMatchData(t *testing.T) {
	var first dial.Nonce
	for name, before := range map[string]int{"data sockets first": 2, "the hello first": 0,
		"the hello in between": 1} {
		t.Run(name, func(t *testing.T) {
			w, _ := alone(t, map[string]string{"sockets": "2", "timeout": "1h"})
			var fds []int
			var ports []uint16
			for range 2 { // a port is known before anything was sent from it
				fd, port := bound(t, w)
				fds, ports = append(fds, fd), append(ports, port)
			}
			connect := func(fds []int) {
				for _, fd := range fds {
					dialData(t, w, fd)
				}
			}
			connect(fds[:before])
			eventually(t, "those to wait", func() bool {
				_, err := w.Poll(nil)
				require.NoError(t, err)
				return len(w.connector.dataSockets) == before
			})
			fds = append(fds, dialled(t, w, greeting(first, w.own, ports[1], ports[0])))
			connect(fds[before:2])
			var lanes []uint16
			eventually(t, "the connection", func() bool {
				_, err := w.Poll(nil)
				require.NoError(t, err)
				return w.peers.Get(0).State == dial.Up
			})
			for i := range len(w.peers.Get(0).conn.Sockets()) - 1 {
				_, port := ends(t, w.peers.Get(0).conn.Sockets()[1+i], false)
				lanes = append(lanes, port)
			}
			require.Equal(t, []uint16{ports[1], ports[0]}, lanes)
			require.Empty(t, w.connector.dataSockets)
			require.NoError(t, sock.CloseAll(fds))
		})
	}
}

// TestMatchDataBeforeConnect: data sockets of a peer that is not connected yet wait with
// their control socket, longer than those of strangers, and are closed with it.
func TestMatchDataBeforeConnect(t *testing.T) {
	w, _ := alone(t, nil)
	a, err := w.settings.decodeAddress(w.Address())
	require.NoError(t, err)
	dataAddress := a.dataAddress(0)
	later := dial.Nonce{1}
	data, port := bound(t, w)
	control := dialled(t, w, greeting(later, w.own, port))
	eventually(t, "the hello", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return len(w.connector.Acceptor.Waiting) == 1 &&
			len(w.connector.Acceptor.Waiting[0].Hello) == dial.HelloSize
	})
	dialData(t, w, data)
	stranger := dialledTo(t, w, dataAddress, nil)
	eventually(t, "both data sockets", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return len(w.connector.dataSockets) == 2
	})
	w.settings.sock.Timeout = 0
	eventually(t, "the stranger to be dropped", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return sock.Peek(stranger) != nil
	})
	require.Len(t, w.connector.dataSockets, 1)
	require.NoError(t, sock.Peek(data))
	require.NoError(t, unix.Close(control))
	eventually(t, "the other one to be dropped", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return sock.Peek(data) != nil &&
			len(w.connector.dataSockets)+len(w.connector.Acceptor.Waiting) == 0
	})
	require.NoError(t, sock.CloseAll([]int{data, stranger}))
}
