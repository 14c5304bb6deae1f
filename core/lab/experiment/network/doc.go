// Package network joins ranks on one host by a network that drops, delays and reorders their
// packets.
//
// Each rank has a network namespace with one interface. What a rank sends is impaired by one of two
// mechanisms: netem, where the kernel has it, at the rank's end of a veth pair; else the relay, a
// thread of this process that passes packets between TAP interfaces. Both see packets of the wire,
// 1,500 bytes at most, so TCP and UDP are impaired alike: TAP offers the kernel no segmentation
// offload, and on the veth pairs a segment of TCP is a packet. [Find] chooses.
//
// Each rank's packets meet the loss, then the rate with a queue of 1,000 packets and the delay,
// which holds 100,000. The relay has the rate before the delay and netem after it, which makes no
// difference unless there is jitter. The delay is that of one direction, so that a round trip has
// it twice. Jitter is uniform and does not reorder packets. There is no ARP, and no IPv6.
//
// The relay's random choices for a rank's packets depend on the seed, how many networks the process
// has made before, the rank and the packets' order only; those of netem are its own. Packets that
// are to overtake others skip the rate of netem, too.
//
// The relay costs a system call to read and one to write a packet, and competes with the ranks for
// processors. It counts how much later than due packets were delivered, which the kernel does not.
//
// Nothing is left behind when this process ends, however it ends: no interface is in the namespace
// of the user, those of the relay belong to its file descriptors and the namespaces to descriptors
// and ranks, and no name in the file system refers to them.
package network
