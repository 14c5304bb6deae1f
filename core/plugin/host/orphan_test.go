package host

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/record"
	"transportbench/core/plugin"
	"transportbench/core/plugin/internal/wire"
)

// startHost starts another host process, which launches a plugin, and returns it with its output
// lines.
func startHost(t *testing.T, name string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	return startHostIn(t, plugins(t, name)[0], name)
}

func startHostIn(t *testing.T, dir, name string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	host := exec.Command(self, dir, name)
	host.Args[0] = hostHelper
	host.Stderr = os.Stderr
	stdout, err := host.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, host.Start())
	t.Cleanup(func() {
		_ = host.Process.Kill()
		_ = host.Wait()
	})
	return host, bufio.NewScanner(stdout)
}

func TestNothingSurvivesAKilledHost(t *testing.T) {
	host, lines := startHost(t, "fake")
	require.True(t, lines.Scan())
	require.True(t, lines.Scan(), "the host did not launch its plugin")
	pid, err := strconv.Atoi(lines.Text())
	require.NoError(t, err)
	noSockets(t) // it is connected
	pidfd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(pidfd)
	require.NoError(t, host.Process.Kill())
	awaitEnd(t, pidfd)
	onlyOurRunDir(t)
}

// The kernel ends a plugin that spins on every core and does not read the pipe.
func TestDeafPluginEndsWithItsHost(t *testing.T) {
	dir := plugins(t, "deaf")[0]
	host, lines := startHostIn(t, dir, "deaf")
	require.True(t, lines.Scan())
	var pid int
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		pid, _ = strconv.Atoi(string(text))
		return pid != 0
	}, 30*time.Second, time.Millisecond)
	pidfd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(pidfd)
	require.NoError(t, host.Process.Kill())
	awaitEnd(t, pidfd)
	onlyOurRunDir(t)
}

// onlyOurRunDir waits until the keepers of killed hosts have removed their directories.
func onlyOurRunDir(t *testing.T) {
	t.Helper()
	k, err := runningKeeper()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		dirs, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), runDirPrefix()+"*"))
		require.NoError(t, err)
		return slices.Equal(dirs, []string{k.dir.path})
	}, 30*time.Second, time.Millisecond)
}

// A socket's path has at most 107 bytes, and the TMPDIR of some clusters is nearly as long.
func TestLongTemporaryDirectory(t *testing.T) {
	long := filepath.Join(shortDir(t), strings.Repeat("x", 90))
	require.NoError(t, os.Mkdir(long, 0o700))
	t.Setenv("TMPDIR", long)
	End() // the next keeper makes the directory for sockets
	defer End()
	p, err := find(t, "fake").Launch(context.Background(), LaunchOptions{})
	require.NoError(t, err)
	require.NoError(t, p.Kill())
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "tb")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// startServing starts a plugin like a host, but without the launcher, so that only the pipe tells
// it that the host has ended.
func startServing(t *testing.T, dir string) (cmd *exec.Cmd, parent *os.File) {
	t.Helper()
	theirs, parent, err := os.Pipe()
	require.NoError(t, err)
	defer theirs.Close()
	cmd = exec.Command(find(t, "fake").Path, "serve")
	cmd.Env = []string{
		wire.Handshake.MagicCookieKey + "=" + wire.Handshake.MagicCookieValue,
		goplugin.EnvUnixSocketDir + "=" + dir,
		fmt.Sprintf("%s=%d", wire.EnvParent, firstExtraFile),
	}
	cmd.ExtraFiles = []*os.File{theirs}
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "|unix|"+dir+"/")
	return cmd, parent
}

func TestPluginEndsWithItsPipe(t *testing.T) {
	base := shortDir(t)
	cmd, parent := startServing(t, base)
	sockets, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Len(t, sockets, 1)

	require.NoError(t, parent.Close())
	err = cmd.Wait()
	require.ErrorContains(t, err, "exit status 3")
}

func TestReattach(t *testing.T) {
	ctx := context.Background()
	cmd := exec.Command(find(t, "fake").Path, "serve", "--debug")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // still running only if the test failed
	lines := bufio.NewScanner(stdout)
	var text string
	for text == "" && lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), plugin.EnvReattach+"="); ok {
			text = strings.Trim(value, "'")
		}
	}
	t.Setenv(plugin.EnvReattach, text+text)
	list, err := Reattachments()
	require.NoError(t, err)
	require.Len(t, list, 2, "lists behind each other are one")
	require.Equal(t, cmd.Process.Pid, list[0].PID)

	for range 2 { // a plugin survives a host that was attached to it
		p, err := Attach(ctx, list[0], LaunchOptions{})
		require.NoError(t, err)
		require.Equal(t, cmd.Process.Pid, p.PID())
		prepared, err := do(ctx, p, "")
		require.NoError(t, err)
		require.Equal(t, cmd.Process.Pid, prepared.PID)
		require.NoError(t, p.Kill())
		<-p.Exited()
		require.NoError(t, p.Err())
		require.ErrorIs(t, p.Connect(ctx, nil), ErrKilled)
	}

	p, err := Attach(ctx, list[0], LaunchOptions{})
	require.NoError(t, err)
	running := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		_, err := p.Run(ctx, record.Window{}, func() { close(running) }, func(record.Progress) {})
		failed <- err
	}()
	<-running
	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	require.ErrorContains(t, <-failed, "closed the connection")
	<-p.Exited()
	require.ErrorContains(t, p.Err(), "closed the connection")
	require.NoError(t, p.Kill())
	for lines.Scan() {
	}
	require.NoError(t, cmd.Wait())

	_, err = Attach(ctx, list[0], LaunchOptions{})
	require.ErrorContains(t, err, "is it still running?")
}

func TestParseReattach(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"[]":                                "",
		"{":                                 "copy the lines",
		"[{}]":                              "is not an address",
		`[{"network":"udp","address":"x"}]`: "is not an address",
	} {
		_, err := parseReattach(text)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

func FuzzParseReattach(f *testing.F) {
	f.Add(`[{"network":"tcp","address":"x"}][]`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseReattach(text)
		for _, r := range list {
			require.NotEmpty(t, r.Address)
		}
		if err != nil {
			require.Empty(t, list)
		}
	})
}
