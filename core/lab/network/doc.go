// Package network joins ranks on one host by a network that drops, delays and reorders their packets.
//
// Each rank has a network namespace with one TAP interface, and a thread of this process, the relay,
// passes packets between them. Packets are those of the wire, 1,500 bytes at most, so TCP and UDP are
// impaired alike: TAP offers the kernel no segmentation offload. The kernel's own netem is not used,
// because many kernels lack it and figures of the two would not compare.
//
// Each rank's packets pass in this order, as in netem: the loss, the rate with a queue of 1,000
// packets, and the delay. The delay is that of one direction, so that a round trip has it twice.
// Jitter is uniform and does not reorder packets. The random choices of a rank's packets depend on the
// seed, the rank and the packets' order only. ARP passes unimpaired, and of other protocols only IPv4.
//
// The relay costs a system call to read and one to write a packet, and competes with the ranks for
// processors. The result has how much later than due packets were delivered.
//
// Nothing is left behind when this process ends, however it ends: the interfaces belong to its file
// descriptors and the namespaces to descriptors and ranks, and no name in the file system refers to them.
package network
