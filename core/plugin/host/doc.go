// Package host is the host's side of the plugin boundary. It finds plugin binaries, asks them for
// their description, starts one process for each rank, and ends the processes in bounded time
// whatever they do.
//
// # How a plugin ends
//
// [Process.Kill] first asks the plugin to end, and kills its process group after a grace period.
// The host may also die without a chance to do anything. Then the kernel kills the plugin, because
// the launcher thread, which forked it, has ended. In case the plugin is no longer a child of that
// thread, it also notices the end of a pipe from the host. No socket is left, because the host
// unlinks its file once the connection stands: SIGKILL would leave it otherwise. A host that dies
// in the few milliseconds before leaves a directory, which the next host removes.
//
// # Decisions
//
// There is no TLS between host and plugin: it would triple the start time, and the socket is in a
// directory that only the user can enter.
//
// go-plugin could start processes itself. It gets a runner of this package instead, because the
// process must start on the launcher thread, the end must reach the whole process group, and
// nobody must ever wait for a plugin's output.
package host
