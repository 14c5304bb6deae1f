package enter

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// name is that under which a program that links this package enters a network namespace and
// becomes a plugin.
const name = "transportbench-enter"

func init() {
	if os.Args[0] == name {
		fmt.Fprintf(os.Stderr, "entering the network namespace: %v\n",
			enter(os.Args[1], os.Args[2:]))
		os.Exit(1)
	}
}

// InSpace makes cmd start in the network namespace of a file; empty is that of the host.
func InSpace(cmd *exec.Cmd, space string) {
	if space == "" {
		return
	}
	cmd.Args = append([]string{name, space}, cmd.Args...)
	cmd.Path = "/proc/self/exe" // of the keeper, which is that of the host
}

// enter replaces this process by command in the network namespace of the file space. Its /sys shows
// the interfaces of the namespace, from which UCX reads them. It returns only if it fails.
func enter(space string, command []string) error {
	runtime.LockOSThread() // execve keeps the namespaces of the calling thread
	fd, err := unix.Open(space, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: space, Err: err}
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"setns", func() error { return unix.Setns(fd, unix.CLONE_NEWNET) }},
		{"unshare", func() error { return unix.Unshare(unix.CLONE_NEWNS) }},
		{"mount /", func() error { return unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, "") }},
		{"mount /sys", func() error {
			return unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
				"")
		}},
		{"execve " + command[0], func() error {
			return unix.Exec(command[0], command, os.Environ())
		}},
	} {
		if err := step.do(); err != nil {
			return os.NewSyscallError(step.what, err)
		}
	}
	return nil
}
