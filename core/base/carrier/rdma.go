package carrier

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// devices has the RDMA devices of the kernel.
const devices = "/sys/class/infiniband"

// wordBytes is the unit of port_xmit_data and port_rcv_data, which count words of four bytes
// (InfiniBand Architecture Specification, PortCounters).
const wordBytes = 4

// portCounter is how a driver counts what a port sends and receives: the sums of files of the port,
// in units of bytes.
type portCounter struct {
	unit                         uint64
	sent, received               []string
	sentPackets, receivedPackets []string
}

// portCounters has the counters of drivers, the first of which that a port has counts: those of
// InfiniBand, of bnxt_re and efa, of erdma in both of its spellings, of irdma and i40iw, and of
// rxe, which counts packets only (the tables of names in Linux's drivers/infiniband).
var portCounters = []portCounter{
	{wordBytes, []string{"counters/port_xmit_data"}, []string{"counters/port_rcv_data"},
		[]string{"counters/port_xmit_packets"}, []string{"counters/port_rcv_packets"}},
	{1, []string{"hw_counters/tx_bytes"}, []string{"hw_counters/rx_bytes"},
		[]string{"hw_counters/tx_pkts"}, []string{"hw_counters/rx_pkts"}},
	{1, []string{"hw_counters/hw_tx_bytes_cnt"}, []string{"hw_counters/hw_rx_bytes_cnt"},
		[]string{"hw_counters/hw_tx_packets_cnt"}, []string{"hw_counters/hw_rx_packets_cnt"}},
	{1, []string{"hw_counters/tx_bytes_cnt"}, []string{"hw_counters/rx_bytes_cnt"},
		[]string{"hw_counters/tx_packets_cnt"}, []string{"hw_counters/rx_packets_cnt"}},
	{1, []string{irdmaCounter, "hw_counters/ip6OutOctets"},
		[]string{"hw_counters/ip4InOctets", "hw_counters/ip6InOctets"},
		[]string{"hw_counters/ip4OutPkts", "hw_counters/ip6OutPkts"},
		[]string{"hw_counters/ip4InPkts", "hw_counters/ip6InPkts"}},
	{1, nil, nil, []string{"hw_counters/sent_pkts"}, []string{"hw_counters/rcvd_pkts"}},
}

// irdmaCounter is reported not to grow with RoCE on some devices.
const irdmaCounter = "hw_counters/ip4OutOctets"

// counterOf returns how the driver of a port counts; ok is false if it counts nothing that is
// known. A driver may have files that always have 0, so one that has counted comes first.
func counterOf(port string) (c portCounter, ok bool) {
	for _, c := range portCounters {
		if sumOf(port, c.sent)+sumOf(port, c.sentPackets) > 0 {
			return c, true
		}
	}
	for _, c := range portCounters {
		if readText(filepath.Join(port, slices.Concat(c.sent, c.sentPackets)[0])) != "" {
			return c, true
		}
	}
	return c, false
}

// sumOf returns the sum of the numbers in files of a port. Those that are missing count as 0.
func sumOf(port string, names []string) (sum uint64) {
	for _, name := range names {
		if n, err := strconv.ParseUint(readText(filepath.Join(port, name)), 10, 64); err == nil {
			sum += n
		}
	}
	return sum
}

// readPorts returns the counters of all ports below root, by "DEVICE/PORT". Ports whose driver
// counts packets only, as Soft-RoCE does, have no bytes.
func readPorts(root string) map[string]record.Bytes {
	list, _ := filepath.Glob(filepath.Join(root, "*", "ports", "*"))
	all := map[string]record.Bytes{}
	for _, port := range list {
		c, _ := counterOf(port)
		first := func(names ...string) uint64 {
			for _, name := range names {
				if n := sumOf(port, []string{name}); n > 0 {
					return n
				}
			}
			return 0
		}
		all[filepath.Base(filepath.Dir(filepath.Dir(port)))+"/"+filepath.Base(port)] = record.Bytes{
			Sent: c.unit * sumOf(port, c.sent), Received: c.unit * sumOf(port, c.received),
			SentPackets:     sumOf(port, c.sentPackets),
			ReceivedPackets: sumOf(port, c.receivedPackets),
			Dropped: first("counters/port_xmit_discards") + first("hw_counters/out_of_sequence",
				"hw_counters/out_of_seq_request") +
				first("hw_counters/rx_discards_phy"),
		}
	}
	return all
}

// addPort completes a path over a port of an RDMA device, as sysfs below root describes it.
func addPort(p *transport.Path, root string) {
	device := filepath.Join(root, p.Device)
	port := filepath.Join(device, "ports", strconv.Itoa(p.Port))
	addFact(p, record.FactLinkRate, readText(filepath.Join(port, "rate")))
	addFact(p, transport.FactLinkLayer, readText(filepath.Join(port, "link_layer")))
	if _, state, ok := strings.Cut(readText(filepath.Join(port, "state")), ": "); ok {
		addFact(p, "port_state", state)
	}
	if index, ok := p.Facts[transport.FactGIDIndex]; ok {
		addFact(p, "gid", readText(filepath.Join(port, "gids", index)))
		addFact(p, "gid_type", readText(filepath.Join(port, "gid_attrs/types", index)))
		p.Interface = readText(filepath.Join(port, "gid_attrs/ndevs", index))
	}
	addFact(p, record.FactUncounted, uncounted(device, port, p.Port))
	addBus(p, filepath.Join(device, "device"))
	if p.Facts[record.FactBus] == "" && p.Interface != "" {
		// Soft-RoCE is on no bus, but the interface below it may be.
		addBus(p, filepath.Join("/sys/class/net", p.Interface, "device"))
	}
}

// uncounted returns why the counters of a port, or of all ports of a device if its number is 0, may
// stay at 0 although it sends; "" if they do not.
func uncounted(device, port string, number int) string {
	ports := []string{port}
	if number == 0 {
		ports, _ = filepath.Glob(filepath.Join(device, "ports", "*"))
	}
	for _, p := range ports {
		switch c, ok := counterOf(p); {
		case !ok:
		case len(c.sent) > 0 && c.sent[0] == irdmaCounter:
			return "its driver may not count RoCE"
		default:
			return ""
		}
	}
	return "its driver has no counters that are known"
}
