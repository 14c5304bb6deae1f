// Package sock has the TCP sockets of the tcpx transport and the system calls on
// them. It knows nothing of requests or messages.
//
//   - [Options] makes sockets: Listen, Dial, Accept.
//   - [Data] is a data socket, and [Syscalls] sends and receives on it.
//   - [Notifier] wakes a thread that sleeps in poll(2).
//
// All sockets are nonblocking. The calls that move bytes are raw system calls: they
// take as long as the copy does, so Go's scheduler need not hear of them.
package sock
