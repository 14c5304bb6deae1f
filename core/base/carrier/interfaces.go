package carrier

import (
	"bufio"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// The commands of linux/ethtool.h that read whether an interface merges and splits segments.
const (
	getSegmentation = 0x23 // ETHTOOL_GGSO
	getMerging      = 0x2b // ETHTOOL_GGRO
)

// readInterfaces returns the counters of all interfaces, by name.
func readInterfaces() map[string]record.Bytes {
	file, err := os.Open("/proc/thread-self/net/dev")
	if err != nil {
		return nil
	}
	defer file.Close()
	all := map[string]record.Bytes{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, counters, ok := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(counters)
		if !ok || len(fields) < 16 {
			continue
		}
		at := func(i int) uint64 { n, _ := strconv.ParseUint(fields[i], 10, 64); return n }
		all[strings.TrimSpace(name)] = record.Bytes{Received: at(0), ReceivedPackets: at(1),
			Sent: at(8), SentPackets: at(9),
			Dropped: at(3) + at(11)}
	}
	return all
}

// namespace returns the number of the calling thread's network namespace, or 0.
func namespace() uint64 {
	var stat unix.Stat_t
	if unix.Stat("/proc/thread-self/ns/net", &stat) != nil {
		return 0
	}
	return stat.Ino
}

// addRoute completes a path between two addresses with the kernel's route and what it knows of the
// interface.
func addRoute(p *transport.Path) {
	_, routed := p.Facts[record.FactRoute]
	if remote, err := netip.ParseAddr(p.Remote); p.Interface == "" && !routed && err == nil {
		local, _ := netip.ParseAddr(p.Local)
		h := routeOf(protocols[p.Carrier], netip.AddrPortFrom(local, p.LocalPort),
			netip.AddrPortFrom(remote, p.RemotePort))
		addHop(p, h)
	}
	if p.Interface == "" {
		return
	}
	if link, err := netlink.LinkByName(p.Interface); err == nil {
		addInterface(p, link)
	}
}

// addHop adds a route, which is the zero hop if there is none.
func addHop(p *transport.Path, h hop) {
	if link, err := netlink.LinkByIndex(h.link); h.link != 0 && err == nil {
		p.Interface = link.Attrs().Name
	}
	switch {
	case h.link == 0:
		addFact(p, record.FactRoute, "none")
	case h.gateway.IsValid():
		addFact(p, record.FactRoute, "via "+h.gateway.String())
	default:
		addFact(p, record.FactRoute, "direct")
	}
}

func addInterface(p *transport.Path, link netlink.Link) {
	attrs := link.Attrs()
	addFact(p, record.FactMTU, strconv.Itoa(attrs.MTU))
	if kind := link.Type(); kind != "" && kind != "device" {
		addFact(p, "interface_kind", kind)
	}
	for name, command := range map[string]uint32{"gso": getSegmentation, "gro": getMerging} {
		if on, ok := ethtool(attrs.Name, command, 0); ok {
			addFact(p, name, map[bool]string{true: "on", false: "off"}[on != 0])
		}
	}
	directory := filepath.Join("/sys/class/net", attrs.Name)
	if readText(filepath.Join(directory, "ifindex")) != strconv.Itoa(attrs.Index) {
		return // sysfs shows another network namespace
	}
	if speed, err := strconv.Atoi(readText(filepath.Join(directory, "speed"))); err == nil &&
		speed > 0 {
		addFact(p, record.FactLinkRate, strconv.Itoa(speed)+" Mb/s")
	}
	addBus(p, filepath.Join(directory, "device"))
}

// addBus adds where a device is, given its link in sysfs: its address, of PCIe for example, and its
// NUMA node.
func addBus(p *transport.Path, link string) {
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return // such as loopback
	}
	addFact(p, record.FactBus, filepath.Base(target))
	if node := readText(filepath.Join(target, "numa_node")); node != "-1" {
		addFact(p, record.FactNUMA, node)
	}
	speed, width := readText(filepath.Join(target, "current_link_speed")),
		readText(filepath.Join(target, "current_link_width"))
	if speed != "" && width != "" {
		addFact(p, "pcie_link", speed+" x"+width)
	}
}

// readText returns a file without the spaces around it, or "".
func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
