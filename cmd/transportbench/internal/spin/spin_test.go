package spin_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/cmd/transportbench/internal/spin"
	"transportbench/core/base/machine"
)

// spinning returns the processes that parent started to spin.
func spinning(t *testing.T, parent int) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) &&
			strings.Contains(string(line), "\x00"+spin.Name+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// spinsOn reports whether a thread of a process that may only run on one processor runs. The first
// thread may not be the one that spins, since a goroutine moves between threads until it is locked.
func spinsOn(pid, cpu int) bool {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	return slices.ContainsFunc(paths, func(path string) bool {
		status, _ := os.ReadFile(path)
		return strings.Contains(string(status), "State:\tR") &&
			strings.Contains(string(status), fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu))
	})
}

// TestSpinOn: a process spins on each processor until it is stopped.
func TestSpinOn(t *testing.T) {
	ids, err := machine.AllowedCPUs()
	require.NoError(t, err)
	var cpus []machine.CPU
	for _, id := range ids {
		cpus = append(cpus, machine.CPU{ID: id})
	}
	running, stop, err := spin.On(cpus)
	require.NoError(t, err)
	defer stop()
	pids := spinning(t, os.Getpid())
	require.Len(t, pids, len(cpus))
	for _, id := range ids {
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(pids, func(pid int) bool { return spinsOn(pid, id) })
		}, 10*time.Second, time.Millisecond, "on cpu %d", id)
	}
	require.NoError(t, running())
	stop()
	require.Empty(t, spinning(t, os.Getpid()))
	stop()
}

// TestLoadThatEnds: a process that does not start to spin, or does not go on, is noticed.
func TestLoadThatEnds(t *testing.T) {
	ids, err := machine.AllowedCPUs()
	require.NoError(t, err)
	const missing = 1 << 12
	_, _, err = spin.On([]machine.CPU{{ID: ids[0]}, {ID: missing}})
	require.ErrorContains(t, err, fmt.Sprintf("the process on cpu %d: ", missing))
	require.ErrorContains(t, err, fmt.Sprintf("pinning to cpu %d", missing))
	require.Empty(t, spinning(t, os.Getpid()), "the other one is stopped")

	running, stop, err := spin.On([]machine.CPU{{ID: ids[0]}})
	require.NoError(t, err)
	defer stop()
	require.NoError(t, running())
	pids := spinning(t, os.Getpid())
	require.Len(t, pids, 1)
	require.NoError(t, unix.Kill(pids[0], unix.SIGKILL)) // as the kernel does when memory is short
	want := fmt.Sprintf("the process that spins on cpu %d has ended", ids[0])
	require.Eventually(t, func() bool {
		err := running()
		return err != nil &&
			err.Error() == want
	}, 10*time.Second, time.Millisecond)
}

// TestKilledLoad: no process that spins survives the one that started it.
func TestKilledLoad(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, clitest.LoadName)
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var pids []int
	require.Eventually(t, func() bool {
		pids = spinning(t, cmd.Process.Pid)
		return len(pids) == 1
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pids[0]), "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, 10*time.Second, time.Millisecond)
}
