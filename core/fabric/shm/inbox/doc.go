// Package inbox carries requests and responses over shared memory between the
// threads and processes of one host. Every worker owns an inbox, a segment with
// a region for each peer, and a peer maps it and writes into the region that it
// claimed. A message of up to 48 bytes is one cache line of that region.
//
// It is what plugins/shm is made of, and the link between a client and its
// rank's daemons in the topology mesh-proxied, whatever the transport.
//
// A region holds either a ring, which carries the peer's calls and its replies
// to ours, or call slots, in which a call is answered in its own line; see
// core/fabric/shm/ring and [Config].
//
// A worker polls only regions that are in use. The others are armed: their
// producer rings the inbox's bell, a bitmap and a word to park on, and the
// worker takes the region up again. Who arms pays for the ordering with a
// membarrier(2), so that who posts pays one load.
//
// Peers do not trust each other: core/fabric/shm/ring checks what it reads, a segment
// cannot be resized (core/fabric/shm), and a peer that breaks the protocol is cut off
// with transport.ErrCorrupt.
package inbox
