package host

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// bred returns descriptors of the processes that a plugin in dir has started with breed.
func bred(t *testing.T, dir string) []int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "bred-*"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	var list []int
	for _, file := range files {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(file), "bred-"))
		require.NoError(t, err)
		fd, err := unix.PidfdOpen(pid, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		list = append(list, fd)
	}
	return list
}

func ended(t *testing.T, pidfd int) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	require.NoError(t, err)
	return n == 1
}

// Neither a session of its own, nor the end of its parent, nor an empty environment saves a process
// that a plugin started.
func TestNothingThatAPluginStartedSurvives(t *testing.T) {
	launch := func(t *testing.T, what string) (*Process, string) {
		t.Helper()
		dir := plugins(t, "fake")[0]
		p, err := Find("fake", []string{dir})
		require.NoError(t, err)
		process, err := p.Launch(context.Background(), LaunchOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, process.Kill()) })
		_, _ = do(context.Background(), process, what) // fails if the plugin panics
		return process, dir
	}
	t.Run("describe", func(t *testing.T) {
		_, err := find(t, "breeding").Describe(context.Background())
		require.NoError(t, err)
		noChildren(t)
	})
	t.Run("end", func(t *testing.T) {
		p, dir := launch(t, "breed")
		children := bred(t, dir)
		for _, fd := range children {
			require.False(t, ended(t, fd))
		}
		require.NoError(t, p.Kill())
		for _, fd := range children {
			require.True(t, ended(t, fd))
		}
		noChildren(t)
	})
	t.Run("panic", func(t *testing.T) {
		p, _ := launch(t, "breed and panic")
		<-p.Exited()
		require.ErrorContains(t, p.Err(), "panic: boom")
		noChildren(t)
	})
	t.Run("another plugin runs", func(t *testing.T) {
		other := launch1(t, "fake", LaunchOptions{})
		p, dir := launch(t, "breed")
		children := bred(t, dir)
		require.NoError(t, p.Kill())
		require.NoError(t, other.Connect(context.Background(), nil))
		require.NoError(t, other.Kill())
		for _, fd := range children {
			require.True(t, ended(t, fd))
		}
		noChildren(t)
	})
}

// A host that is killed leaves the rest to the keeper.
func TestNothingThatAPluginStartedSurvivesAKilledHost(t *testing.T) {
	dir := plugins(t, "breeding")[0]
	host, lines := startHostIn(t, dir, "breeding")
	require.True(t, lines.Scan())
	require.True(t, lines.Scan(), "the host did not launch its plugin")
	children := bred(t, dir)
	require.NoError(t, host.Process.Kill())
	for _, fd := range children {
		awaitEnd(t, fd)
	}
}

// The host starts a new keeper if the keeper is killed, and its plugins end with it.
func TestKilledKeeper(t *testing.T) {
	p := launch1(t, "fake", LaunchOptions{})
	k, err := runningKeeper()
	require.NoError(t, err)
	require.NoError(t, k.cmd.Process.Kill())
	<-p.Exited()
	require.ErrorContains(t, p.Err(), "died: signal: killed")
	<-k.gone
	_, err = find(t, "fake").Describe(context.Background())
	require.NoError(t, err)
	noChildren(t)
}

// The host's own children are not the keeper's business.
func TestKeeperLeavesChildrenOfTheHost(t *testing.T) {
	own, lines := startHost(t, "fake")
	require.True(t, lines.Scan() && lines.Scan(), "the host did not launch its plugin")
	p := launch1(t, "fake", LaunchOptions{})
	require.NoError(t, p.Kill())
	require.True(t, alive(own.Process.Pid))
	End()
	require.True(t, alive(own.Process.Pid))
	require.NoError(t, own.Process.Kill())
	require.Error(t, own.Wait(), "it could still be waited for")
}
