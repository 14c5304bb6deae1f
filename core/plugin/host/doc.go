// Package host is the host's side of the plugin boundary: it finds plugin
// binaries, asks them what they are, starts one process for each rank, and ends
// them again in bounded time whatever they do.
//
// # What ends a plugin
//
// [Process.Kill] asks first, and after a grace period kills the process group.
// Where the host itself dies, without a chance to do anything, three things
// follow: the kernel kills the plugin, since the thread that started it is gone
// (the reason for the launcher thread); the plugin reads the end of a pipe, in
// case that it is not a child of that thread any more; and there is no socket
// to remove, since its file is unlinked as soon as the connection stands. A
// host that dies within the few milliseconds before leaves a directory, which
// the next one sweeps.
//
// # Decisions
//
// No TLS between host and plugin: it would triple the time to start, and the
// socket lies in a directory that only the user can enter.
//
// go-plugin starts processes by itself; here it gets a runner of ours instead,
// because the start must happen on the launcher thread, the end must reach the
// whole process group, and a plugin's output must never make anybody wait.
package host
