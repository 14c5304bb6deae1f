package carrier

import (
	"path/filepath"
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

// readPorts returns the counters of all ports below root, by "DEVICE/PORT". Ports whose driver counts
// packets only, as Soft-RoCE does, have no bytes.
func readPorts(root string) map[string]record.Bytes {
	list, _ := filepath.Glob(filepath.Join(root, "*", "ports", "*"))
	all := map[string]record.Bytes{}
	for _, port := range list {
		number := func(names ...string) uint64 {
			for _, name := range names {
				if n, err := strconv.ParseUint(readText(filepath.Join(port, name)), 10, 64); err == nil && n > 0 {
					return n
				}
			}
			return 0
		}
		all[filepath.Base(filepath.Dir(filepath.Dir(port)))+"/"+filepath.Base(port)] = record.Bytes{
			Sent:            wordBytes * number("counters/port_xmit_data"),
			Received:        wordBytes * number("counters/port_rcv_data"),
			SentPackets:     number("counters/port_xmit_packets", "hw_counters/sent_pkts"),
			ReceivedPackets: number("counters/port_rcv_packets", "hw_counters/rcvd_pkts"),
			Dropped: number("counters/port_xmit_discards") + number("hw_counters/out_of_sequence", "hw_counters/out_of_seq_request") +
				number("hw_counters/rx_discards_phy"),
		}
	}
	return all
}

// addPort completes a path over a port of an RDMA device, as sysfs below root describes it.
func addPort(p *transport.Path, root string) {
	device := filepath.Join(root, p.Device)
	port := filepath.Join(device, "ports", strconv.Itoa(p.Port))
	addFact(p, record.FactLinkRate, readText(filepath.Join(port, "rate")))
	addFact(p, "link_layer", readText(filepath.Join(port, "link_layer")))
	if _, state, ok := strings.Cut(readText(filepath.Join(port, "state")), ": "); ok {
		addFact(p, "port_state", state)
	}
	if index, ok := p.Facts[transport.FactGIDIndex]; ok {
		addFact(p, "gid", readText(filepath.Join(port, "gids", index)))
		addFact(p, "gid_type", readText(filepath.Join(port, "gid_attrs/types", index)))
		p.Interface = readText(filepath.Join(port, "gid_attrs/ndevs", index))
	}
	addBus(p, filepath.Join(device, "device"))
	if p.Facts[record.FactBus] == "" && p.Interface != "" {
		// Soft-RoCE is on no bus, but the interface below it may be.
		addBus(p, filepath.Join("/sys/class/net", p.Interface, "device"))
	}
}
