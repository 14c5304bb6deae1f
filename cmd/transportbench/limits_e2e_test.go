package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var everyTransport = []string{"shm", "copyrpc", "erpc", "tcpx"}

// refusal is a run that every transport refuses before it starts anything.
type refusal struct {
	limit string // a shell command; empty for none
	args  []string
	want  string
}

var refusals = map[string]refusal{
	"few descriptors": {"ulimit -n 20", nil, "open files: a process of this run needs about 26, " +
		"but the limit is 20; raise it with ulimit -n 1024"},
	"descriptors for the clients": {"ulimit -n 64", []string{"--clients", "64"},
		"but the limit is 64; raise it with ulimit -n 1024, or use fewer ranks, daemons or " +
			"clients"},
	"address space": {"ulimit -v 1048576", nil, "address space: a process of this run reserves " +
		"about 1.5 GiB, but the limit is 1.0 GiB; raise it with ulimit -v unlimited"},
	"keys": {"", []string{"--keys", "1000000000", "--value-size", "64KiB"},
		"GiB are available; use fewer keys or smaller values"},
	"memory": {"", []string{"--clients", "256", "--in-flight", "65536", "--value-size", "1MiB"},
		"GiB are available; use fewer clients, fewer calls in flight or smaller values"},
	"duration": {"", []string{"--duration", "1ns"},
		"--duration: 1ns is out of range (1ms to 100h0m0s)"},
	"long duration": {"", []string{"--duration", "1000h"}, "--duration: 1000h0m0s is out of range"},
	"repeats": {"", []string{"--repeats", "1000000"},
		"--repeats: 1000000 is out of range (1 to 10000)"},
	"rate": {"", []string{"--rate", "1e12"},
		"--rate: 1e+12 op/s is out of range (0.001 to 1e+09)"},
}

// limitedCommand is command with a transport, after a shell command that limits it.
func limitedCommand(t *testing.T, limit, transport string, args ...string) *invocation {
	t.Helper()
	i := command(t, append([]string{"run", "--transport", transport}, args...)...)
	if limit != "" {
		i.cmd.Args = append([]string{"bash", "-c", limit + ` && exec "$@"`, "bash", i.cmd.Path},
			i.cmd.Args[1:]...)
		shell, err := exec.LookPath("bash")
		require.NoError(t, err)
		i.cmd.Path = shell
	}
	return i
}

// requireRefused checks that a run ends with one line and exit code 2 and leaves nothing.
func (i *invocation) requireRefused(t *testing.T, want string) {
	t.Helper()
	require.Equal(t, 2, i.run(t), i.stderr.String())
	require.Contains(t, i.stderr.String(), want)
	require.Equal(t, 1, strings.Count(i.stderr.String(), "\n"), i.stderr.String())
	require.Empty(t, i.results(t))
}

func TestLimitsRefuseARun(t *testing.T) {
	for name, r := range refusals {
		for _, transport := range everyTransport {
			if testing.Short() && name != "descriptors for the clients" && transport != "shm" {
				continue // only the needs of a transport differ
			}
			t.Run(name+"/"+transport, func(t *testing.T) {
				limitedCommand(t, r.limit, transport, r.args...).requireRefused(t, r.want)
			})
		}
	}
}

// TestTransportsRefuseARun has the refusals that name a limit of one transport.
func TestTransportsRefuseARun(t *testing.T) {
	values := []string{"--value-size", "1GiB", "--keys", "1"}
	proxied := []string{"--topology", "mesh-proxied", "--clients", "256", "--in-flight", "4096"}
	for _, test := range []struct {
		transport string
		args      []string
		want      string
	}{
		{"shm", values, "use --value-size 268435440 or less"},
		{"copyrpc", values, "use --value-size 134217664 or less"},
		{"erpc", values, "use --value-size 16777199 or less"},
		{"tcpx", values, "use --value-size 1073741808 or less"},
		{"tcpx", []string{"--daemons", "1024"},
			"--daemons: each client would have 1024 daemons, but transport tcpx takes 256 " +
				"connections a worker; use fewer ranks or daemons"},
		{"tcpx", []string{"--clients", "1024", "--daemons", "64"},
			"--clients: each daemon would have 1024 clients, but transport tcpx takes 256 " +
				"connections a worker; use fewer ranks or clients"},
		{"tcpx", []string{"--ranks", "1024", "--topology", "mesh-direct"},
			"--clients: each daemon would have 1024 clients, but transport tcpx takes 256 " +
				"connections a worker; use fewer ranks or clients"},
		{"erpc", proxied, "transport erpc takes 65536 on a connection; use fewer clients, or " +
			"fewer calls in flight"},
		{"tcpx", proxied, "transport tcpx takes 65536 on a connection; use fewer clients, or " +
			"fewer calls in flight"},
	} {
		t.Run(test.transport+" "+strings.Join(test.args, " "), func(t *testing.T) {
			limitedCommand(t, "", test.transport, test.args...).requireRefused(t, test.want)
		})
	}

	// A launched rank finds this limit.
	i := limitedCommand(t, "", "copyrpc", "--in-flight", "65536", "--value-size", "1KiB")
	require.Equal(t, 2, i.run(t), i.stderr.String())
	require.Contains(t, i.stderr.String(),
		"transportbench: --in-flight: 65536 calls in flight, but transport copyrpc takes 15887 "+
			"on a connection; use --in-flight 15887 or less\n")
	require.Empty(t, i.results(t))
}

// TestWithinTheLimits runs where little is allowed, but enough.
func TestWithinTheLimits(t *testing.T) {
	run := []string{"--duration", "100ms", "--warmup", "20ms", "--repeats", "1"}
	for name, limit := range map[string]string{
		"descriptors":   "ulimit -n 40",
		"address space": "ulimit -v 2097152",
		"one processor": "taskset -p -c $(taskset -p -c $$ | grep -o '[0-9]*$') $$ >/dev/null",
	} {
		t.Run(name, func(t *testing.T) {
			i := limitedCommand(t, limit, "shm", run...)
			// a check may warn of a busy machine
			require.Contains(t, []int{0, 4}, i.run(t), i.stderr.String())
			require.Len(t, i.results(t), 1)
		})
	}
}

// TestUsersOfFewProcesses runs as another user, because root has no such limit.
func TestUsersOfFewProcesses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may run a command as another user")
	}
	require.NoError(t, os.Chmod(bin, 0o755))
	const nobody = 65534
	home := shortTempDir(t)
	require.NoError(t, os.Chown(home, nobody, nobody))
	i := limitedCommand(t, "ulimit -u 20", "shm", "--out", filepath.Join(home, "results"))
	i.cmd.Env = append(i.cmd.Env, "TMPDIR="+home, "XDG_CONFIG_HOME="+home, "XDG_STATE_HOME="+home)
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody,
		Gid: nobody}}
	i.requireRefused(t, "more; raise ulimit -u or pids.max")
}

func TestNoPlaceForFiles(t *testing.T) {
	i := command(t, append([]string{"run"}, short...)...)
	i.cmd.Env = append(i.cmd.Env, "TMPDIR=/nonexistent/tmp")
	i.requireRefused(t, "set TMPDIR to another directory")

	readOnly := t.TempDir()
	if err := unix.Mount("none", readOnly, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Skipf("mounting a file system: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(readOnly, 0)) })
	i = command(t, "run", "--transport", "shm", "--out", readOnly)
	i.requireRefused(t, "checking the results directory: "+readOnly+
		": read-only file system; make it writable or choose another directory with --out")

	full := t.TempDir()
	if err := unix.Mount("none", full, "tmpfs", 0, "size=200k"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(full, 0)) })
	// Whatever the size of a page, there is less room than that.
	require.NoError(t, os.WriteFile(filepath.Join(full, "other"), make([]byte, 160<<10), 0o600))
	page := filepath.Join(full, "report.html")
	i = command(t, "report", committed, "-o", page)
	i.requireRefused(t, "transportbench: --output: write "+page+
		": no space left on device; free some space\n")
	require.NoFileExists(t, page)

	// A state directory that cannot be written holds calibrations only.
	i = command(t, append([]string{"run"}, short...)...)
	i.cmd.Env = append(i.cmd.Env, "XDG_STATE_HOME=/proc/none")
	require.Zero(t, i.run(t), i.stderr.String())
}

// TestLongRunsAreAnnounced interrupts a run of hours at once.
func TestLongRunsAreAnnounced(t *testing.T) {
	i := begin(t, "repeat 1 of", "--duration", "10s")
	require.NoError(t, i.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 130, i.wait(t))
	require.Regexp(t,
		`transportbench: this takes about 3h\d+m.*; use fewer --repeats`,
		i.stderr.String())
}

// TestControlGroup runs with more memory than its control group has left, in one that it makes
// below its own.
func TestControlGroup(t *testing.T) {
	own := controlGroup(t)
	group := filepath.Join(own, "transportbench-test-"+time.Now().Format("150405.000000"))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("making a control group: %v", err)
	}
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return os.Remove(group) == nil }, 10*time.Second,
			10*time.Millisecond)
	})
	limit := filepath.Join(group, "memory.limit_in_bytes")
	if _, err := os.Stat(limit); err != nil {
		limit = filepath.Join(group, "memory.max")
	}
	if err := os.WriteFile(limit, []byte("256M"), 0o600); err != nil {
		t.Skipf("limiting a control group: %v", err)
	}
	run := func(args ...string) *invocation {
		i := command(t, append(append([]string{"run"}, short...), args...)...)
		i.cmd.Args = append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group,
			i.cmd.Path}, i.cmd.Args[1:]...)
		i.cmd.Path = "/bin/sh"
		return i
	}
	run("--keys", "1000000", "--value-size", "4KiB").requireRefused(t,
		"but only 0.2 GiB are available; use fewer keys or smaller values")
	fits := run()
	require.Zero(t, fits.run(t), fits.stderr.String())
}

// controlGroup returns the directory of this process's control group for memory.
func controlGroup(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) == 3 && parts[1] == "memory":
			return filepath.Join("/sys/fs/cgroup/memory", parts[2])
		case len(parts) == 3 && parts[0] == "0" && len(parts[1]) == 0:
			if _, err := os.Stat("/sys/fs/cgroup/memory.max"); err == nil || parts[2] != "/" {
				return filepath.Join("/sys/fs/cgroup", parts[2])
			}
		}
	}
	t.Skip("no control group for memory")
	return ""
}

// TestLargestLoads runs the largest values of options that need little memory. It is for the long
// tests: each takes seconds on two processors.
func TestLargestLoads(t *testing.T) {
	inLongTests(t)
	for name, args := range map[string][]string{
		"clients":   {"--clients", "256"},
		"mesh":      {"--ranks", "64", "--topology", "mesh-direct"},
		"daemons":   {"--daemons", "64"},
		"in flight": {"--in-flight", "65536"},
	} {
		for _, transport := range everyTransport {
			t.Run(name+"/"+transport, func(t *testing.T) {
				i := command(t, append([]string{"run", "--transport", transport, "--duration",
					window, "--warmup", "20ms", "--repeats", "1"}, args...)...)
				code := i.run(t)
				// a check may warn of a busy machine
				require.Contains(t, []int{0, 4}, code, i.stderr.String())
				require.Len(t, i.results(t), 1)
				require.NotContains(t, i.stderr.String(), "goroutine ")
			})
		}
	}
}
