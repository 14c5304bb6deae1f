package result

// Mechanism is what impairs the packets between ranks.
type Mechanism string

// The mechanisms. Figures of different ones do not compare.
const (
	Netem    Mechanism = "netem"    // the kernel, at the interface of each rank
	Relay    Mechanism = "relay"    // a thread of the command
	Imitated Mechanism = "imitated" // the transport, in its own datagrams
)

// NetworkCounters are what a network with impairments did to the packets of all ranks. A packet is
// one frame on the wire of at most 1,500 bytes of IP; ARP is not counted.
type NetworkCounters struct {
	Packets uint64 `json:"packets"` // that ranks sent
	// Bytes are those of packets with their IP headers; netem counts them of delivered packets
	// only.
	Bytes      uint64 `json:"bytes"`
	Dropped    uint64 `json:"dropped"` // by the loss that was asked for
	Overflowed uint64 `json:"overflowed,omitempty"`
	Delivered  uint64 `json:"delivered"`
	Reordered  uint64 `json:"reordered,omitempty"` // sent before packets that had come earlier
	// DelayNS is the time of all delivered packets from their arrival at the relay to their
	// delivery. LateNS is its part after they were due, which the relay took itself, and MaxLateNS
	// the longest of these since the launch.
	DelayNS   uint64 `json:"delay_ns,omitempty"`
	LateNS    uint64 `json:"late_ns,omitempty"`
	MaxLateNS uint64 `json:"max_late_ns,omitempty"`
	// BusyNS is the time in which the relay passed packets and did not wait for any.
	BusyNS uint64 `json:"busy_ns,omitempty"`
}

// Since returns what was counted after before.
func (c NetworkCounters) Since(before NetworkCounters) NetworkCounters {
	return NetworkCounters{
		Packets: c.Packets - before.Packets, Bytes: c.Bytes - before.Bytes,
		Dropped:    c.Dropped - before.Dropped,
		Overflowed: c.Overflowed - before.Overflowed, Delivered: c.Delivered - before.Delivered,
		Reordered: c.Reordered - before.Reordered, DelayNS: c.DelayNS - before.DelayNS,
		LateNS: c.LateNS - before.LateNS, MaxLateNS: c.MaxLateNS, BusyNS: c.BusyNS - before.BusyNS,
	}
}

// Plus returns the sum of two windows.
func (c NetworkCounters) Plus(o NetworkCounters) NetworkCounters {
	return NetworkCounters{
		Packets: c.Packets + o.Packets, Bytes: c.Bytes + o.Bytes, Dropped: c.Dropped + o.Dropped,
		Overflowed: c.Overflowed + o.Overflowed, Delivered: c.Delivered + o.Delivered,
		Reordered: c.Reordered + o.Reordered, DelayNS: c.DelayNS + o.DelayNS,
		LateNS: c.LateNS + o.LateNS, MaxLateNS: max(c.MaxLateNS, o.MaxLateNS), BusyNS: c.BusyNS +
			o.BusyNS,
	}
}

// Network returns the counters of all windows together; ok is false if no network impaired packets.
func (r *Result) Network() (sum NetworkCounters, ok bool) {
	for i := range r.Repeats {
		if c := r.Repeats[i].Network; c != nil {
			sum, ok = sum.Plus(*c), true
		}
	}
	return sum, ok
}
