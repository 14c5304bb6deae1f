package carrier

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// connect returns both ends of a TCP connection over the loopback.
func connect(t *testing.T) (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	near, err = net.Dial("tcp4", listener.Addr().String())
	require.NoError(t, err)
	far, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}

func carry(t *testing.T, from, to net.Conn, bytes int) {
	t.Helper()
	sent := make(chan error, 1)
	go func() { _, err := from.Write(make([]byte, bytes)); sent <- err }()
	_, err := io.ReadFull(to, make([]byte, bytes))
	require.NoError(t, err)
	require.NoError(t, <-sent)
}

// find returns the counter of a kind and a name.
func find(carried *record.Carried, kind, name string) record.Counter {
	for _, c := range carried.Counters {
		if c.Kind == kind && c.Name == name {
			return c
		}
	}
	return record.Counter{}
}

func TestCarriedByConnections(t *testing.T) {
	near, far := connect(t)
	carry(t, near, far, 1<<20) // before the window
	watch := NewWatch()
	require.Zero(t, find(watch.Carried(), record.KindTCP, "127.0.0.1 127.0.0.1"),
		"a window without bytes")
	carry(t, near, far, 300_000)
	carry(t, far, near, 5)
	one, other := connect(t) // within the window
	carry(t, one, other, 100)

	// Acknowledgements may be under way when all bytes have arrived.
	var tcp record.Counter
	require.Eventually(t, func() bool {
		tcp = find(watch.Carried(), record.KindTCP, "127.0.0.1 127.0.0.1")
		return tcp.Sent >= 300_105
	}, time.Minute, time.Millisecond)
	// The kernel's count of acknowledged bytes includes the SYN of a new connection.
	require.InDelta(t, 300_105, tcp.Sent, 2)
	require.EqualValues(t, 300_105, tcp.Received)
	lo := find(watch.Carried(), record.KindInterface, "lo")
	require.Greater(t, lo.Sent, uint64(300_105))
	require.Positive(t, lo.SentPackets)
	require.NotZero(t, watch.Carried().Namespace)
}

func TestDescribeTCP(t *testing.T) {
	near, _ := connect(t)
	raw, err := near.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION,
			"reno"))
		require.NoError(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 50_000))
	}))
	stated := transport.Path{Carrier: transport.MediumTCP, Overhead: 8,
		Facts: map[string]string{"engine": "epoll"}}
	paths := Describe([]transport.Path{stated, stated})
	require.Len(t, paths, 1)
	p := paths[0]
	require.Equal(t, "127.0.0.1", p.Local)
	require.Equal(t, "127.0.0.1", p.Remote)
	require.Equal(t, "lo", p.Interface)
	require.Equal(t, 8, p.Overhead)
	require.Equal(t, "epoll", p.Facts["engine"])
	require.Equal(t, "direct", p.Facts[record.FactRoute])
	require.Equal(t, "2", p.Facts[record.FactConnections])
	require.Contains(t, p.Facts[record.FactCongestion], "reno")
	require.Contains(t, p.Facts[record.FactSendBuffer], "100000") // the kernel doubles it
	require.NotEmpty(t, p.Facts[record.FactMTU])
	require.Len(t, stated.Facts, 1, "the statement is the caller's")
	require.Equal(t, "tcp over lo", record.PathName(&p))
}

func TestDescribeUDP(t *testing.T) {
	paths := Describe([]transport.Path{{Carrier: transport.MediumUDP, Local: "127.0.0.1",
		Remote: "127.0.0.2"}})
	require.Equal(t, "lo", paths[0].Interface)
}

func TestSegments(t *testing.T) {
	const smaps = `7f00-7f01 rw-s 00000000 00:01 5 /memfd:transportbench-inbox (deleted)
Size:               2048 kB
KernelPageSize:        4 kB
7f02-7f03 rw-s 00000000 00:01 6 /memfd:transportbench-inbox (deleted)
Size:               1024 kB
KernelPageSize:        4 kB
7f04-7f05 rw-s 00000000 00:0f 7 /anon_hugepage (deleted)
Size:               4096 kB
KernelPageSize:     2048 kB
7f06-7f07 r--s 00000000 00:0f 7 /memfd:only-read (deleted)
Size:               4096 kB
KernelPageSize:        4 kB
7f08-7f09 rw-p 00000000 00:00 0
Size:               4096 kB
KernelPageSize:        4 kB
7f0a-7f0b rw-s 00000000 00:0f 7 /dev/infiniband/uverbs0
Size:                  4 kB
KernelPageSize:        4 kB
`
	require.Equal(t, "hugetlb 4MiB in pages of 2MiB, memfd 3MiB in pages of 4KiB",
		segmentsIn(strings.NewReader(smaps)))
	memory, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(memory)) }()
	p := Describe([]transport.Path{{Carrier: transport.MediumMemory}})[0]
	require.Contains(t, p.Facts[record.FactSegments], "anonymous 64KiB in pages of ")
}

// port makes a port of an RDMA device as sysfs shows it.
func port(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
	}
	return root
}

func TestPorts(t *testing.T) {
	root := port(t, map[string]string{
		"mlx5_0/ports/1/counters/port_xmit_data":    "1000",
		"mlx5_0/ports/1/counters/port_rcv_data":     "500",
		"mlx5_0/ports/1/counters/port_xmit_packets": "7",
		"mlx5_0/ports/1/rate":                       "100 Gb/sec (4X EDR)",
		"mlx5_0/ports/1/link_layer":                 "Ethernet",
		"mlx5_0/ports/1/state":                      "4: ACTIVE",
		"mlx5_0/ports/1/gids/3":                     "0000:0000:0000:0000:0000:ffff:0a00:0001",
		"mlx5_0/ports/1/gid_attrs/types/3":          "RoCE v2",
		"mlx5_0/ports/1/gid_attrs/ndevs/3":          "eth2",
		"bus/0000:3b:00.0/numa_node":                "1",
		"bus/0000:3b:00.0/current_link_speed":       "16.0 GT/s PCIe",
		"bus/0000:3b:00.0/current_link_width":       "16",
		"irdma0/ports/1/hw_counters/ip4OutOctets":   "70",
		"irdma0/ports/1/hw_counters/ip6OutOctets":   "7",
		"irdma0/ports/1/hw_counters/ip4InOctets":    "5",
		"irdma0/ports/1/hw_counters/ip4OutPkts":     "3",
		"efa_0/ports/1/hw_counters/tx_bytes":        "600",
		"efa_0/ports/1/hw_counters/rx_pkts":         "6",
		"erdma_0/ports/1/hw_counters/tx_bytes_cnt":  "90",
		"siw0/ports/1/state":                        "4: ACTIVE",
		"rxe0/ports/1/counters/port_xmit_data":      "0",
		"rxe0/ports/1/hw_counters/sent_pkts":        "11",
		"rxe0/ports/1/hw_counters/rcvd_pkts":        "12",
	})
	require.NoError(t, os.Symlink(filepath.Join(root, "bus/0000:3b:00.0"),
		filepath.Join(root, "mlx5_0/device")))
	require.Equal(t, map[string]record.Bytes{
		"mlx5_0/1":  {Sent: 4000, Received: 2000, SentPackets: 7},
		"irdma0/1":  {Sent: 77, Received: 5, SentPackets: 3},
		"efa_0/1":   {Sent: 600, ReceivedPackets: 6},
		"erdma_0/1": {Sent: 90},
		"siw0/1":    {},
		"rxe0/1":    {SentPackets: 11, ReceivedPackets: 12},
	}, readPorts(root))
	for device, want := range map[string]string{
		"mlx5_0": "", "efa_0": "", "rxe0": "", "irdma0": "its driver may not count RoCE",
		"siw0": "its driver has no counters that are known",
	} {
		for number := range 2 { // 0 is any port
			p := transport.Path{Carrier: transport.MediumVerbs, Device: device, Port: number,
				Facts: map[string]string{}}
			addPort(&p, root)
			require.Equal(t, want, p.Facts[record.FactUncounted], device)
		}
	}

	p := transport.Path{Carrier: transport.MediumVerbs, Device: "mlx5_0", Port: 1,
		Facts: map[string]string{transport.FactGIDIndex: "3"}}
	addPort(&p, root)
	require.Equal(t, "eth2", p.Interface)
	require.Equal(t, map[string]string{
		"gid_index": "3", "gid": "0000:0000:0000:0000:0000:ffff:0a00:0001", "gid_type": "RoCE v2",
		"link_rate":  "100 Gb/sec (4X EDR)",
		"link_layer": "Ethernet", "port_state": "ACTIVE", "bus": "0000:3b:00.0", "numa_node": "1",
		"pcie_link": "16.0 GT/s PCIe x16",
	}, p.Facts)
	require.Equal(t, []string{"verbs over mlx5_0/1, gid_index 3, gid_type RoCE v2, link_layer " +
		"Ethernet, link_rate 100 Gb/sec (4X EDR), pcie_link 16.0 GT/s PCIe x16, port_state ACTIVE"},
		record.PathIdentity([]transport.Path{p, p}))
}

// A datagram that a socket has no room for is counted.
func TestDrops(t *testing.T) {
	receiver, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer receiver.Close()
	require.NoError(t, receiver.SetReadBuffer(1))
	sender, err := net.DialUDP("udp4", nil, receiver.LocalAddr().(*net.UDPAddr))
	require.NoError(t, err)
	defer sender.Close()
	watch := NewWatch()
	for range 100 {
		_, err := sender.Write(make([]byte, 1000))
		require.NoError(t, err)
	}
	require.Positive(t, find(watch.Carried(), record.KindUDP, "all sockets").Dropped)
}
