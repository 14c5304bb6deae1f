// Package sock has stream sockets for transports, and the system calls on them. It knows nothing of
// requests or messages.
//
//   - [Options] makes sockets: Listen, Dial and Accept those of TCP, ListenAt, DialTo and
//     AcceptFrom those of any family.
//   - [Data] is a data socket, and [Syscalls] sends and receives on it.
//   - [Vectors] sends and receives stretches of memory.
//   - [Acceptor] accepts connections, and refuses those of strangers.
//   - [Notifier] wakes a thread that sleeps in poll(2).
//
// All sockets are nonblocking. The calls that move bytes are raw system calls: they take only as
// long as a copy, so they skip Go's scheduler.
package sock
