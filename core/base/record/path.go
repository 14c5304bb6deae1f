package record

import (
	"maps"
	"slices"
	"strconv"

	"transportbench/core/transport"
)

// Names of facts that the runtime adds to a path.
const (
	FactConnections   = "connections"
	FactCongestion    = "congestion_control"
	FactSegment       = "segment_bytes"
	FactSendBuffer    = "send_buffer"
	FactReceiveBuffer = "receive_buffer"
	FactRoute         = "route"
	FactMTU           = "mtu"
	FactLinkRate      = "link_rate"
	FactBus           = "bus"
	FactNUMA          = "numa_node"
	FactSegments      = "segments"
	// FactUncounted says why the counters of an RDMA port may stay at 0; absent if they do not.
	FactUncounted = "uncounted"
)

// Bytes are counters of one carrier.
type Bytes struct {
	Sent            uint64 `json:"sent_bytes" bound:"<=exact"`
	Received        uint64 `json:"received_bytes" bound:"<=exact"`
	SentPackets     uint64 `json:"sent_packets,omitempty" bound:"<=exact"`
	ReceivedPackets uint64 `json:"received_packets,omitempty" bound:"<=exact"`
	Retransmitted   uint64 `json:"retransmitted_packets,omitempty" bound:"<=exact"`
	Dropped         uint64 `json:"dropped_packets,omitempty" bound:"<=exact"`
}

// Add adds the counters of o.
func (b *Bytes) Add(o Bytes) {
	b.Sent, b.Received = b.Sent+o.Sent, b.Received+o.Received
	b.SentPackets, b.ReceivedPackets = b.SentPackets+o.SentPackets, b.ReceivedPackets+
		o.ReceivedPackets
	b.Retransmitted, b.Dropped = b.Retransmitted+o.Retransmitted, b.Dropped+o.Dropped
}

// Since returns what the counters grew by. One that is lower than before was reset, and has grown
// by its value at least.
func (b Bytes) Since(before Bytes) Bytes {
	grown := func(now, then uint64) uint64 {
		if now < then {
			return now
		}
		return now - then
	}
	return Bytes{
		Sent: grown(b.Sent, before.Sent), Received: grown(b.Received, before.Received),
		SentPackets:     grown(b.SentPackets, before.SentPackets),
		ReceivedPackets: grown(b.ReceivedPackets, before.ReceivedPackets),
		Retransmitted:   grown(b.Retransmitted, before.Retransmitted),
		Dropped:         grown(b.Dropped, before.Dropped),
	}
}

// The kinds of counters.
const (
	// of the process's connections between two addresses, "LOCAL REMOTE"
	KindTCP = "tcp"
	// of the process's datagram sockets, of which the kernel counts drops only
	KindUDP       = "udp"
	KindInterface = "interface" // of all traffic of an interface
	KindPort      = "rdma"      // of all traffic of a port of an RDMA device, "DEVICE/PORT"
)

// Counter is what one carrier counted in a window.
type Counter struct {
	Kind string `json:"kind" jsonschema:"enum=tcp,enum=udp,enum=interface,enum=rdma" bound:"=tcp|udp|interface|rdma"`
	Name string `json:"name" bound:">=1,<=256"`
	Bytes
}

// Carried is what the kernel counted in a window, whatever a transport says. Counters that did not
// grow are left out.
type Carried struct {
	// Namespace numbers the network namespace to which the interfaces belong.
	Namespace uint64    `json:"namespace,omitempty" bound:"any"`
	Counters  []Counter `json:"counters" bound:"<=1024"`
}

// volatile are the facts that may differ between two runs over the same path.
var volatile = []string{FactConnections, FactSegment, FactSendBuffer, FactReceiveBuffer,
	FactSegments, FactNUMA, FactBus, FactUncounted, "gid"}

// PathIdentity returns one line for each way that the paths take, without what differs between two
// runs over the same one or between two machines alike, such as addresses and granted buffers.
func PathIdentity(paths []transport.Path) (list []string) {
	for _, p := range paths {
		line := PathName(&p)
		for _, name := range slices.Sorted(maps.Keys(p.Facts)) {
			if !slices.Contains(volatile, name) {
				line += ", " + name + " " + p.Facts[name]
			}
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// PathName names a path in a few words: "tcp over lo", "verbs over mlx5_0/1", "memory".
func PathName(p *transport.Path) string {
	switch {
	case p.Device != "" && p.Port == 0:
		return p.Carrier + " over " + p.Device
	case p.Device != "":
		return p.Carrier + " over " + PortName(p)
	case p.Interface != "":
		return p.Carrier + " over " + p.Interface
	}
	return p.Carrier
}

// PortName returns the name of a path's port as a [Counter] of KindPort has it.
func PortName(p *transport.Path) string { return p.Device + "/" + strconv.Itoa(p.Port) }
