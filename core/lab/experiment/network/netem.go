package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"transportbench/core/base/netem"
	"transportbench/core/fabric/netspace"
	"transportbench/core/lab/store/result"
)

// kernelWires join ranks by veth pairs with netem at the interface of each rank: one pair for two
// ranks, else a pair from each rank to a bridge.
type kernelWires struct {
	spaces []*netspace.Space // of the ranks
	bridge *netspace.Space   // nil without a bridge
	lossy  bool
}

const (
	bridgeName = "bridge"
	// inOrder is a rate in bytes per second that limits nothing. With a rate netem sends packets in
	// their order, which jitter, or a thread that changes its processor, would change otherwise.
	inOrder = 1e12
	// ethernetHeader is the part of a packet's bytes that is not IP.
	ethernetHeader = 14
)

func newKernelWires(spaces []*netspace.Space, impairments netem.Impairments) (_ wires, err error) {
	k := &kernelWires{spaces: spaces, lossy: impairments.Loss > 0}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	if len(spaces) == 2 {
		err = netspace.Join(netspace.Wire{Space: spaces[0], Name: wireName},
			netspace.Wire{Space: spaces[1], Name: wireName}, 0)
	} else {
		err = k.addBridge()
	}
	if err != nil {
		return nil, err
	}
	for _, space := range spaces {
		err := space.With(wireName, func(handle *netlink.Handle, wire netlink.Link) error {
			// The kernel would hand several segments of TCP to netem as one packet.
			if err := handle.LinkSetGSOMaxSegs(wire, 1); err != nil {
				return err
			}
			for _, q := range disciplines(impairments, wire.Attrs().Index) {
				if err := handle.QdiscAdd(q); err != nil {
					return fmt.Errorf("netem: %w", err)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return k, nil
}

// addBridge makes a bridge in a namespace of its own and joins all ranks to it.
func (k *kernelWires) addBridge() (err error) {
	if k.bridge, err = netspace.New(); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeName
	if err := k.bridge.With("lo", func(handle *netlink.Handle, _ netlink.Link) error {
		return handle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
	}); err != nil {
		return fmt.Errorf("making a bridge: %w", err)
	}
	for r, space := range k.spaces {
		port := fmt.Sprintf("rank%d", r)
		if err := netspace.Join(netspace.Wire{Space: k.bridge, Name: port},
			netspace.Wire{Space: space, Name: wireName}, 0); err != nil {
			return err
		}
		if err := k.bridge.With(bridgeName,
			func(handle *netlink.Handle, bridge netlink.Link) error {
				link, err := handle.LinkByName(port)
				if err != nil {
					return err
				}
				return handle.LinkSetMaster(link, bridge)
			}); err != nil {
			return err
		}
		if err := k.bridge.Up(port); err != nil {
			return err
		}
	}
	return k.bridge.Up(bridgeName)
}

// disciplines returns the queueing disciplines of a rank's interface. The rate has one of its own
// after the other, so that the packets that overflow its queue are not counted as lost, and those
// in the delay do not fill it.
func disciplines(i netem.Impairments, link int) []netlink.Qdisc {
	first := &netlink.Netem{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link, Handle: netlink.MakeHandle(1, 0),
			Parent: netlink.HANDLE_ROOT},
		Limit: delayLimit, Loss: probability(i.Loss), Latency: ticks(i.Delay),
		Jitter: ticks(i.Jitter),
	}
	if i.Reorder > 0 {
		first.ReorderProb, first.Gap = probability(i.Reorder), 1 // any packet may overtake
	}
	if i.Delay+i.Jitter > 0 {
		first.Rate64 = inOrder
	}
	if i.Rate == 0 {
		return []netlink.Qdisc{first}
	}
	return []netlink.Qdisc{first, &netlink.Netem{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link, Handle: netlink.MakeHandle(2, 0),
			Parent: netlink.MakeHandle(1, 1)},
		Limit: queueLimit, Rate64: uint64(i.Rate / 8),
	}}
}

// probability returns a share as netem has it.
func probability(share float64) uint32 { return uint32(share * math.MaxUint32) }

// ticks returns a time as netem has it, in steps of 64 ns.
func ticks(d time.Duration) uint32 {
	return uint32(float64(d) / float64(time.Microsecond) * netlink.TickInUsec())
}

// ready implements wires. The kernel drops packets until it has seen that both ends of a wire are
// up, which it does by itself soon after.
func (k *kernelWires) ready() error {
	deadline := time.Now().Add(5 * time.Second)
	for _, space := range k.spaces {
		for up := false; !up; {
			if err := space.With(wireName, func(_ *netlink.Handle, wire netlink.Link) error {
				up = wire.Attrs().OperState == netlink.OperUp
				return nil
			}); err != nil {
				return err
			}
			switch {
			case up:
			case time.Now().After(deadline):
				return errors.New("a veth pair does not come up")
			default:
				time.Sleep(time.Millisecond)
			}
		}
	}
	return nil
}

func (k *kernelWires) close() {
	if k.bridge != nil {
		_ = k.bridge.Close()
	}
}

// counters implements wires. The kernel does not count how long packets take.
func (k *kernelWires) counters() (sum result.NetworkCounters) {
	for _, space := range k.spaces {
		var c result.NetworkCounters
		_ = space.With(wireName, func(_ *netlink.Handle, wire netlink.Link) error {
			if sent := wire.Attrs().Statistics; sent != nil {
				c.Delivered, c.Bytes = sent.TxPackets, sent.TxBytes-ethernetHeader*sent.TxPackets
			}
			return space.Do(func() error {
				first, rate, err := queues(wire.Attrs().Index)
				// The first discipline counts as dropped what the other one drops, too.
				c.Packets, c.Reordered = c.Delivered+first.drops, first.requeues
				if c.Dropped = first.drops - rate.drops; !k.lossy {
					c.Dropped = 0
				}
				c.Overflowed = first.drops - c.Dropped
				return err
			})
		})
		sum = sum.Plus(c)
	}
	return sum
}

// queue has the counters of a queueing discipline.
type queue struct{ drops, requeues uint64 }

// queues returns the counters of the disciplines of an interface in this thread's namespace. It
// reads those of the format that has requeues, which are the packets that netem let overtake
// others.
func queues(link int) (first, rate queue, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETQDISC, unix.NLM_F_DUMP)
	request.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(link)})
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	for _, m := range messages {
		header := nl.DeserializeTcMsg(m)
		var q queue
		for _, statistics := range attributes(m[header.Len():], nl.TCA_STATS2) {
			// struct gnet_stats_queue
			for _, b := range attributes(statistics, nl.TCA_STATS_QUEUE) {
				q.drops, q.requeues = uint64(binary.NativeEndian.Uint32(b[8:])),
					uint64(binary.NativeEndian.Uint32(b[12:]))
			}
		}
		switch {
		case int(header.Ifindex) != link:
		case header.Parent == netlink.HANDLE_ROOT:
			first = q
		default:
			rate = q
		}
	}
	return first, rate, err
}

// attributes returns the values of the attributes of a type.
func attributes(b []byte, which uint16) (values [][]byte) {
	list, err := nl.ParseRouteAttr(b)
	if err != nil {
		return nil
	}
	for _, a := range list {
		if a.Attr.Type&nl.NLA_TYPE_MASK == which {
			values = append(values, a.Value)
		}
	}
	return values
}
