package network

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"transportbench/core/base/netem"
	"transportbench/core/lab/store/result"
)

// The tests with "Network" in their names run in the guest, too, whose kernel has netem.

// each runs a test with each mechanism. It skips the test if the machine or the user's privileges
// do not allow it, and fails it if the environment says that they do.
func each(t *testing.T, ranks int, i netem.Impairments, test func(*testing.T, *Network)) {
	for m, required := range map[result.Mechanism]string{result.Netem: "CI_REQUIRE_NETEM",
		result.Relay: "CI_REQUIRE_NAMESPACES"} {
		t.Run(string(m), func(t *testing.T) {
			n := New(m, i, 1)
			err := n.Open(ranks)
			if err != nil && os.Getenv(required) == "" {
				t.Skipf("no %s here: %v", m, err)
			}
			require.NoError(t, err)
			t.Cleanup(n.Close)
			test(t, n)
		})
	}
}

// socket returns a UDP socket of a rank.
func socket(t *testing.T, n *Network, rank int) (s *net.UDPConn) {
	t.Helper()
	require.NoError(t, n.spaces[rank].Do(func() (err error) {
		s, err = net.ListenUDP("udp4", &net.UDPAddr{IP: address(rank).AsSlice(), Port: 7979})
		return err
	}))
	t.Cleanup(func() { s.Close() })
	raw, err := s.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	}))
	require.NoError(t, err)
	return s
}

const (
	datagram = 1000            // bytes
	onWire   = datagram + 42.0 // with all headers
)

// send sends datagrams from one socket to another, with an interval between them. It returns the
// numbers of those that have arrived when all are there that the network has not dropped, and what
// each took.
func send(t *testing.T, n *Network, from, to *net.UDPConn, count int,
	interval time.Duration) (order []int, took []time.Duration) {
	t.Helper()
	began, before := time.Now(), n.Counters()
	sent := make(chan error, 1)
	go func() {
		b := make([]byte, datagram)
		for i := range count {
			time.Sleep(interval)
			binary.LittleEndian.PutUint64(b, uint64(i))
			binary.LittleEndian.PutUint64(b[8:], uint64(time.Since(began)))
			if _, err := from.WriteTo(b, to.LocalAddr()); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	b := make([]byte, datagram)
	for {
		require.NoError(t, to.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		if _, err := to.Read(b); err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			now := n.Counters().Since(before)
			passed := int(now.Delivered + now.Dropped + now.Overflowed)
			if passed == count && len(order) == int(now.Delivered) {
				require.NoError(t, <-sent)
				return order, took
			}
			require.Less(t, time.Since(began), time.Minute, "%d of %d arrived: %+v", len(order),
				count, n.Counters())
			continue
		}
		took = append(took, time.Since(began)-time.Duration(binary.LittleEndian.Uint64(b[8:])))
		order = append(order, int(binary.LittleEndian.Uint64(b)))
	}
}

// overtaken returns how many packets arrived after one that was sent later.
func overtaken(order []int) (n int) {
	last := 0
	for _, number := range order {
		if last = max(last, number); number < last {
			n++
		}
	}
	return n
}

// swapped returns how many of some packets may arrive so where nothing is to be reordered: the
// kernel receives packets that left netem on different processors by each of them.
func swapped(n *Network, packets int) int {
	if n.mechanism == result.Relay {
		return 0
	}
	return packets / 20
}

func TestNetworkLoss(t *testing.T) {
	each(t, 2, netem.Impairments{Loss: 0.1}, func(t *testing.T, n *Network) {
		const count = 2000
		order, _ := send(t, n, socket(t, n, 0), socket(t, n, 1), count, 10*time.Microsecond)
		require.LessOrEqual(t, overtaken(order), swapped(n, count))
		require.InDelta(t, 0.1*count, n.Counters().Dropped, 70, "five standard deviations")
	})
}

func TestNetworkDelay(t *testing.T) {
	const delay, jitter = 30 * time.Millisecond, 10 * time.Millisecond
	for _, i := range []netem.Impairments{{Delay: delay}, {Delay: delay, Jitter: jitter}} {
		each(t, 2, i, func(t *testing.T, n *Network) {
			order, took := send(t, n, socket(t, n, 0), socket(t, n, 1), 500, 50*time.Microsecond)
			require.Len(t, order, 500)
			require.LessOrEqual(t, overtaken(order), swapped(n, 500), "nothing is reordered")
			shortest := slices.Min(took)
			require.GreaterOrEqual(t, shortest, delay-i.Jitter-time.Microsecond)
			require.Less(t, shortest, 10*delay)
			if i.Jitter > 0 {
				require.Greater(t, slices.Max(took), shortest+jitter/2)
			}
		})
	}
}

func TestNetworkReorder(t *testing.T) {
	each(t, 2, netem.Impairments{Delay: 30 * time.Millisecond, Reorder: 0.1},
		func(t *testing.T, n *Network) {
			order, took := send(t, n, socket(t, n, 0), socket(t, n, 1), 1000, 50*time.Microsecond)
			require.Len(t, order, 1000)
			require.Greater(t, overtaken(order), swapped(n, 1000))
			require.Less(t, slices.Min(took), 30*time.Millisecond, "some skip the delay")
			require.InDelta(t, 100, n.Counters().Reordered, 60, "six standard deviations")
		})
}

func TestNetworkRate(t *testing.T) {
	each(t, 2, netem.Impairments{Rate: 20e6}, func(t *testing.T, n *Network) {
		const count = 500
		began := time.Now()
		order, _ := send(t, n, socket(t, n, 0), socket(t, n, 1), count, 0)
		require.Len(t, order, count, "the queue has room for them")
		require.GreaterOrEqual(t, time.Since(began).Seconds(), count*onWire*8/20e6)
	})
	each(t, 2, netem.Impairments{Rate: 1e6, Loss: 0.1}, func(t *testing.T, n *Network) {
		from, to := socket(t, n, 0), socket(t, n, 1)
		for range 2000 { // of 8 ms
			_, err := from.WriteTo(make([]byte, datagram), to.LocalAddr())
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool {
			c := n.Counters()
			return c.Overflowed > 500 && c.Dropped > 0
		}, 10*time.Second, time.Millisecond)
		require.Less(t, n.Counters().Dropped, uint64(270), "an overflow is no loss")
	})
	// The queue is that of the rate, which packets in the delay do not fill.
	each(t, 2, netem.Impairments{Rate: 100e6, Delay: 900 * time.Millisecond},
		func(t *testing.T, n *Network) {
			order, took := send(t, n, socket(t, n, 0), socket(t, n, 1), 1200, 10*time.Microsecond)
			require.Len(t, order, 1200)
			require.GreaterOrEqual(t, slices.Min(took), 900*time.Millisecond-time.Microsecond)
			require.Zero(t, n.Counters().Overflowed)
		})
}

// Every rank reaches every other one, and a stream is cut into packets of the wire.
func TestNetworkOfSeveralRanks(t *testing.T) {
	each(t, 3, netem.Impairments{}, func(t *testing.T, n *Network) {
		sockets := []*net.UDPConn{socket(t, n, 0), socket(t, n, 1), socket(t, n, 2)}
		for from := range sockets {
			for to := range sockets {
				if from != to {
					order, _ := send(t, n, sockets[from], sockets[to], 10, 0)
					require.Len(t, order, 10, "%d to %d", from, to)
				}
			}
		}
	})
	each(t, 2, netem.Impairments{}, func(t *testing.T, n *Network) {
		const size = 4 << 20
		var (
			l    net.Listener
			from net.Conn
		)
		require.NoError(t, n.spaces[1].Do(func() (err error) {
			l, err = net.Listen("tcp4", address(1).String()+":0")
			return err
		}))
		defer l.Close()
		require.NoError(t, n.spaces[0].Do(func() (err error) {
			from, err = net.Dial("tcp4", l.Addr().String())
			return err
		}))
		defer from.Close()
		to, err := l.Accept()
		require.NoError(t, err)
		defer to.Close()
		go func() { _, _ = from.Write(make([]byte, size)) }()
		_, err = io.CopyN(io.Discard, to, size)
		require.NoError(t, err)
		c := n.Counters()
		require.GreaterOrEqual(t, c.Packets, uint64(size/1460))
		require.GreaterOrEqual(t, c.Bytes, uint64(size))
		require.LessOrEqual(t, c.Bytes, 1500*c.Packets)
	})
}

// An interface that is deleted does not keep the relay busy, which serves the others.
func TestNetworkWithoutAnInterface(t *testing.T) {
	n := New(result.Relay, netem.Impairments{}, 1)
	if err := n.Open(3); err != nil {
		t.Skipf("no relay here: %v", err)
	}
	t.Cleanup(n.Close)
	require.NoError(t, n.spaces[2].With(wireName, (*netlink.Handle).LinkDel))
	r := n.wires.(*relay)
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.gone > 0
	}, 10*time.Second, time.Millisecond)
	order, _ := send(t, n, socket(t, n, 0), socket(t, n, 1), 100, 0)
	require.Len(t, order, 100)
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Equal(t, 1, r.gone)
}

func TestFind(t *testing.T) {
	m, err := Find()
	switch {
	case err == nil && os.Getenv("CI_REQUIRE_NETEM") != "":
		require.Equal(t, result.Netem, m)
	case err == nil:
		require.Contains(t, []result.Mechanism{result.Netem, result.Relay}, m)
		n := New(m, netem.Impairments{}, 1)
		require.NoError(t, n.Open(4))
		n.Close()
	case os.Getenv("CI_REQUIRE_NAMESPACES") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}
