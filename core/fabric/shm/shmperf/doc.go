// Package shmperf measures what shared memory offers a transport: making memory, finding it, moving
// it, and passing messages through it, between threads and between processes.
//
//   - allocate: the system calls that make a segment, each apart, and an arena that needs none.
//   - lookup: the ways to find the segment that holds an address.
//   - transfer: copies in and out, and buffers handed over by reference.
//   - spsc: rings with one producer and one consumer.
//   - mesh: all nodes send to all others.
//
// Every answer and every message is checked. A measurement between processes starts the running
// program again as its other nodes: the program calls [Child] first thing in main. The memory is an
// anonymous file that the nodes inherit, and a node ends when the process that started it has
// ended, so nothing is left behind by a kill.
package shmperf
