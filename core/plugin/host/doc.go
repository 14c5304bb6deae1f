// Package host is the host's side of the plugin boundary. It finds plugin binaries, asks them for
// their description, starts one process for each rank, and ends the processes in bounded time
// whatever they do.
//
// # How a plugin ends
//
// [Process.Kill] first asks the plugin to end, and kills its process group after a grace period.
//
// Plugins are not children of the host but of the keeper, a process of the same executable that the
// host starts with its first plugin. The keeper is a subreaper: a process whose parent has ended
// becomes its child, whatever session, group or environment the process has. So its descendants are
// exactly the processes that plugins started. When the last running plugin has ended, the keeper
// kills all others that are left, and reports the end of the plugin when they are gone. It does not
// touch other children of the host. It also removes what a plugin leaves: its directory in
// /dev/shm, and its System V shared memory, recognised by the creator. At its end it removes the
// host's directory for sockets.
//
// If the host dies, even by SIGKILL, its connection to the keeper ends. The keeper then kills
// everything and ends. If the keeper is killed, the kernel kills the plugins, because their parent
// thread has ended; the host reports it. A plugin also notices the end of a pipe from the host. If
// the keeper does not answer within five seconds, for example because a plugin stopped it by
// SIGSTOP, the host kills it.
//
// The keeper cannot end or remove everything:
//   - If the keeper is killed by SIGKILL, processes that plugins started outlive it, and so do
//     directories until the next host removes them.
//   - A process in an uninterruptible sleep, or one of another user, cannot be killed. The keeper
//     waits two seconds for it, and the error has its process number.
//   - What a plugin has another service start, such as systemd or a container engine, is not its
//     descendant.
//
// # Decisions
//
// A plugin is executed only if no other user could have replaced it: the file, and every directory
// and link on the way from the root, belong to root or the user and are written by nobody else. See
// [files.Trusted] for the two exceptions.
//
// Directories that other users can see have random names and are removed through descriptors, never
// by path, so that no link of a stranger leads the removal elsewhere.
//
// There is no TLS between host and plugin: it would triple the start time, and the socket is in a
// directory that only the user can enter.
//
// go-plugin could start processes itself. It gets a runner of this package instead, because the
// keeper must start the process, the end must reach all its descendants, and the host must not wait
// without limit for a plugin's output.
//
// The host itself is no subreaper. It could not tell orphans of plugins from children of other code
// in the same process, and could do nothing about them after its own end by SIGKILL. A control
// group (cgroup.kill) would need a writable hierarchy, which users rarely have, and would move the
// measured processes into a group with other limits.
package host
