package carrier

import (
	"cmp"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// ends are the addresses of a connection, without ports.
type ends struct{ local, remote netip.Addr }

func (e ends) String() string { return e.local.String() + " " + e.remote.String() }

// connection is a TCP socket of this process.
type connection struct {
	ends
	localPort, remotePort           uint16
	sent, received                  uint64 // bytes that the peer acknowledged, and that arrived
	sentPackets, receivedPackets    uint64
	retransmitted                   uint64 // packets
	congestion                      string
	segment                         uint32 // bytes
	sendBuffer, receiveBuffer, pmtu int
}

// sockets are the open Internet sockets of this process.
type sockets struct {
	tcp map[uint64]connection // by the kernel's cookie
	// dropped counts the datagrams that UDP sockets had no room for, by cookie.
	dropped map[uint64]uint64
}

// readSockets asks the kernel about each of the process's descriptors. Sockets that are closed
// meanwhile are left out.
func readSockets() sockets {
	s := sockets{tcp: map[uint64]connection{}, dropped: map[uint64]uint64{}}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return s
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err != nil || domain != unix.AF_INET && domain != unix.AF_INET6 {
			continue
		}
		cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
		if err != nil {
			continue
		}
		switch kind, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); kind {
		case unix.SOCK_STREAM:
			if c, ok := readConnection(fd); ok {
				s.tcp[cookie] = c
			}
		case unix.SOCK_DGRAM:
			if drops, ok := readDrops(fd); ok {
				s.dropped[cookie] = drops
			}
		}
	}
	return s
}

// readConnection returns false for sockets that are not connected.
func readConnection(fd int) (c connection, ok bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return c, false
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		return c, false
	}
	remote, err := unix.Getpeername(fd)
	if err != nil {
		return c, false
	}
	c.local, c.localPort = addressOf(local)
	c.remote, c.remotePort = addressOf(remote)
	if !c.local.IsValid() || !c.remote.IsValid() {
		return c, false
	}
	c.sent, c.received = info.Bytes_acked, info.Bytes_received
	c.sentPackets, c.receivedPackets = uint64(info.Segs_out), uint64(info.Segs_in)
	c.retransmitted, c.segment, c.pmtu = uint64(info.Total_retrans), info.Snd_mss, int(info.Pmtu)
	c.congestion, _ = unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	c.sendBuffer, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	c.receiveBuffer, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return c, true
}

func addressOf(a unix.Sockaddr) (netip.Addr, uint16) {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr), uint16(a.Port)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)
	}
	return netip.Addr{}, 0
}

// way is what connections have in common that take the same path.
type way struct {
	ends
	hop
}

// byWay groups connections by their ends and routes: the kernel may spread those between the same
// ends over several interfaces.
func (s *sockets) byWay() map[way][]connection {
	groups := map[way][]connection{}
	for _, c := range s.tcp {
		w := way{c.ends, routeOf(unix.IPPROTO_TCP, netip.AddrPortFrom(c.local, c.localPort),
			netip.AddrPortFrom(c.remote, c.remotePort))}
		groups[w] = append(groups[w], c)
	}
	return groups
}

// paths returns a path for each pair of ends between which the process has TCP connections, and for
// each of their routes.
func (s *sockets) paths(stated transport.Path) (list []transport.Path) {
	groups := s.byWay()
	for _, w := range slices.SortedFunc(maps.Keys(groups), func(a, b way) int {
		return cmp.Or(a.local.Compare(b.local), a.remote.Compare(b.remote),
			cmp.Compare(a.link, b.link), a.gateway.Compare(b.gateway))
	}) {
		p := stated
		p.Local, p.Remote, p.Facts = w.local.String(), w.remote.String(), maps.Clone(stated.Facts)
		if p.Interface == "" {
			addHop(&p, w.hop)
		}
		group := groups[w]
		addFact(&p, record.FactConnections, strconv.Itoa(len(group)))
		addFact(&p, record.FactCongestion,
			spread(group, func(c connection) string { return c.congestion }))
		addFact(&p, record.FactSegment, spread(group,
			func(c connection) string { return strconv.Itoa(int(c.segment)) }))
		addFact(&p, record.FactSendBuffer,
			spread(group, func(c connection) string { return strconv.Itoa(c.sendBuffer) }))
		addFact(&p, record.FactReceiveBuffer,
			spread(group, func(c connection) string { return strconv.Itoa(c.receiveBuffer) }))
		list = append(list, p)
	}
	return list
}

// spread returns the value of all connections, or their lowest and highest: "1448 to 32741".
func spread(list []connection, of func(connection) string) string {
	values := map[string]bool{}
	for _, c := range list {
		values[of(c)] = true
	}
	sorted := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) // as numbers
	})
	if len(sorted) == 1 {
		return sorted[0]
	}
	return sorted[0] + " to " + sorted[len(sorted)-1]
}
