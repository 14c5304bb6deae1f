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

	"transportbench/core/transport"
)

// hostOf is an address of the loopback device that this process alone uses, so that ports
// can be fixed there.
func hostOf(n int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid>>8%250, pid&0xff, n)
}

const testPort = 5201

// openOn opens a rank on such an address, with a fixed port for data sockets.
func openOn(t *testing.T, host, workers int) transport.Transport {
	t.Helper()
	values, err := transport.ParseOptions(schema, map[string]string{"address": hostOf(host), "data-port": fmt.Sprint(testPort), "sockets": "3"})
	require.NoError(t, err)
	tr, err := Driver{}.Open(context.Background(), transport.Config{Workers: workers, Peers: 1, InFlight: 4, MaxPayload: 1 << 20, Options: values})
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

// ends are the ports of both ends of a socket, the one that listened first.
func ends(t *testing.T, fd int, dialled bool) (listened, other uint16) {
	t.Helper()
	own, err := ownPort(fd)
	require.NoError(t, err)
	far, err := unix.Getpeername(fd)
	require.NoError(t, err)
	if dialled {
		return addrPort(far).Port(), own
	}
	return own, addrPort(far).Port()
}

// TestDataPort: of two hosts whose data sockets have the same fixed port, these and no
// other sockets have it, at one end; and nothing comes over them but payloads. Both workers
// of a rank are called, each by a port of its own, and right after a run is the next one.
func TestDataPort(t *testing.T) {
	for range 2 {
		one, two := openOn(t, 1, 2), openOn(t, 2, 2)
		for i := range 2 {
			a, b := newTestWorker(t, one, i), newTestWorker(t, two, i)
			meet(t, a, b)
			for _, w := range []*worker{a, b} {
				dialled := slices.Compare(w.nonce, w.peers[0].address.Nonce) < 0
				c := w.peers[0].comm
				listened, other := ends(t, c.control.fd, dialled)
				require.NotContains(t, []uint16{testPort, testPort + 1}, listened)
				require.NotContains(t, []uint16{testPort, testPort + 1}, other)
				for lane := range c.lanes {
					listened, other := ends(t, c.lanes[lane].fd, dialled)
					require.Equal(t, uint16(testPort+i), listened)
					require.NotContains(t, []uint16{testPort, testPort + 1}, other)
					info, err := unix.GetsockoptTCPInfo(c.lanes[lane].fd, unix.IPPROTO_TCP, unix.TCP_INFO)
					require.NoError(t, err)
					require.Zero(t, info.Bytes_received, "before there is a message")
				}
			}
			// The lanes have the same order on both sides.
			for lane := range a.peers[0].comm.lanes {
				near, far := a.peers[0].comm.lanes[lane].fd, b.peers[0].comm.lanes[lane].fd
				own, err := unix.Getsockname(near)
				require.NoError(t, err)
				peer, err := unix.Getpeername(far)
				require.NoError(t, err)
				require.Equal(t, addrPort(own), addrPort(peer))
			}
			oneCall(t, a, b, 1<<20)
		}
		require.NoError(t, one.Close())
		require.NoError(t, two.Close())
	}
}

// TestOverIPv6: where connections come from is told apart as well.
func TestOverIPv6(t *testing.T) {
	options := map[string]string{"address": "::1", "sockets": "2"}
	listener, _, err := testSettings(t, options).listen(0)
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	require.NoError(t, unix.Close(listener))
	a, b := connectedWorkers(t, transport.Config{Peers: 1, InFlight: 4, MaxPayload: 100}, options)
	oneCall(t, a, b, 100)
}

// TestDataPortTaken: one line that names the option, the port and what to do.
func TestDataPortTaken(t *testing.T) {
	newTestWorker(t, openOn(t, 3, 1), 0)
	_, err := openOn(t, 3, 1).NewWorker(0)
	var wrong *transport.OptionError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "data-port", wrong.Option)
	require.Contains(t, wrong.Problem, fmt.Sprintf("port %d of %s is taken", testPort, hostOf(3)))
	require.Contains(t, wrong.Problem, "or 0 for any")
}

// TestDataPortRange: the last worker's port is one, too.
func TestDataPortRange(t *testing.T) {
	values, err := transport.ParseOptions(schema, map[string]string{"data-port": "65534"})
	require.NoError(t, err)
	s, err := resolve(transport.Config{Workers: 2, Options: values})
	require.NoError(t, err)
	require.Equal(t, uint16(65535), s.dataPortOf(1))
	_, err = resolve(transport.Config{Workers: 3, Options: values})
	var wrong *transport.OptionError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "data-port", wrong.Option)
	require.Contains(t, wrong.Problem, "use 65533 or less")
	require.Zero(t, testSettings(t, nil).dataPortOf(5), "any")
}

// TestSteeringNeedsAPort: a NIC's rule is for a port that is known.
func TestSteeringNeedsAPort(t *testing.T) {
	options := map[string]string{"interface": "eth7", "address": "::1"}
	err := testSettings(t, options).checkSteering()
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err, "set data-port=5201, say, and then ethtool -N eth7 flow-type tcp6 dst-port PORT queue N")
	options["data-port"], options["queue"] = "5300", "15"
	s := testSettings(t, options)
	require.NoError(t, s.checkSteering())
	require.Equal(t, "ethtool -N eth7 flow-type tcp6 dst-port 5300 queue 15, and again with src-port", s.steering())
}

// TestClaims: data sockets find their places by the ports that the hello tells, whether
// they come before it or after it. Those of nobody are dropped, and so are those of a
// control socket that goes before its peer is known.
func TestClaims(t *testing.T) {
	first := make([]byte, nonceSize)
	for name, before := range map[string]int{"data sockets first": 2, "the hello first": 0, "the hello in between": 1} {
		t.Run(name, func(t *testing.T) {
			w, _ := alone(t, map[string]string{"sockets": "2", "timeout": "1h"})
			a, err := w.settings.decodeAddress(w.Address())
			require.NoError(t, err)
			door := netip.AddrPortFrom(a.At.Addr(), a.DataPort)
			var fds []int
			var ports []uint16
			for range 2 { // a port is known before anything was sent from it
				fd, err := w.settings.newSocket()
				require.NoError(t, err)
				require.NoError(t, unix.Bind(fd, socketAddress(netip.AddrPortFrom(w.settings.address, 0))))
				port, err := ownPort(fd)
				require.NoError(t, err)
				fds, ports = append(fds, fd), append(ports, port)
			}
			connect := func(fds []int) {
				for _, fd := range fds {
					if err := unix.Connect(fd, socketAddress(door)); err != unix.EINPROGRESS {
						require.NoError(t, err)
					}
				}
			}
			connect(fds[:before])
			eventually(t, "those to wait", func() bool {
				_, err := w.Poll(nil)
				require.NoError(t, err)
				return len(w.unclaimed) == before
			})
			fds = append(fds, dialled(t, w, greeting(first, w.nonce, ports[1], ports[0])))
			connect(fds[before:2])
			var lanes []uint16
			eventually(t, "the connection", func() bool {
				_, err := w.Poll(nil)
				require.NoError(t, err)
				return w.peers[0].state == up
			})
			for i := range w.peers[0].comm.lanes {
				_, port := ends(t, w.peers[0].comm.lanes[i].fd, false)
				lanes = append(lanes, port)
			}
			require.Equal(t, []uint16{ports[1], ports[0]}, lanes)
			require.Empty(t, w.unclaimed)
			require.NoError(t, closeAll(fds))
		})
	}
}

// TestClaimsOfWhoIsNotKnownYet: data sockets of a peer that Connect has not told of wait
// with their control socket, longer than those of strangers, and go when it goes.
func TestClaimsOfWhoIsNotKnownYet(t *testing.T) {
	w, _ := alone(t, nil)
	a, err := w.settings.decodeAddress(w.Address())
	require.NoError(t, err)
	door := netip.AddrPortFrom(a.At.Addr(), a.DataPort)
	later := slices.Repeat([]byte{1}, nonceSize)
	data, err := w.settings.newSocket()
	require.NoError(t, err)
	require.NoError(t, unix.Bind(data, socketAddress(netip.AddrPortFrom(w.settings.address, 0))))
	port, err := ownPort(data)
	require.NoError(t, err)
	control := dialled(t, w, greeting(later, w.nonce, port))
	eventually(t, "the hello", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return len(w.arrivals) == 1 && w.arrivals[0].have == helloSize
	})
	if err := unix.Connect(data, socketAddress(door)); err != unix.EINPROGRESS {
		require.NoError(t, err)
	}
	stranger := dialledTo(t, w, door, nil)
	eventually(t, "both data sockets", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return len(w.unclaimed) == 2
	})
	w.settings.timeout = 0
	eventually(t, "the stranger to be dropped", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return peek(stranger) != nil
	})
	require.Len(t, w.unclaimed, 1)
	require.NoError(t, peek(data))
	require.NoError(t, unix.Close(control))
	eventually(t, "the other one to be dropped", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return peek(data) != nil && len(w.unclaimed)+len(w.arrivals) == 0
	})
	require.NoError(t, closeAll([]int{data, stranger}))
}
