//go:build ibverbs

package devices_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
)

// verbsVariable is set by make test-rdma to the device to test. If it is set, a test that
// finds no device fails; otherwise it skips.
const verbsVariable = "RDMA_TEST_DEVICE"

// verbs returns the options of the device under test.
func verbs(t *testing.T) rdma.Options {
	name := os.Getenv(verbsVariable)
	o := rdma.Options{Provider: rdma.Verbs, Device: name, GIDIndex: rdma.AnyGID}
	d, err := devices.Open(o)
	if name == "" && errors.Is(err, rdma.ErrUnavailable) {
		t.Skipf("%v; make test-rdma runs it on Soft-RoCE", err)
	}
	require.NoError(t, err)
	require.NoError(t, d.Close())
	return o
}

func TestVerbsConformance(t *testing.T) {
	o := verbs(t)
	// The timeouts are long because an emulated guest may get no processor for long.
	runSuite(t, suite{Open: func() (rdma.Device, error) { return devices.Open(o) },
		Timeout: 2 * time.Minute,
		Connect: rdma.ConnectOptions{Timeout: 17}, Impatient: rdma.ConnectOptions{Timeout: 17,
			Retries: 2}})
}

// lockedVariable makes the test binary ask for more locked memory than its limit allows.
const lockedVariable = "RDMA_TEST_LOCKED"

func TestVerbsLockedMemory(t *testing.T) {
	o := verbs(t)
	if os.Getenv(lockedVariable) != "" {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK,
			&unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}))
		d, err := devices.Open(o)
		require.NoError(t, err)
		defer d.Close()
		_, err = d.Allocate(64<<20, rdma.RemoteWrite)
		require.ErrorContains(t, err, "the limit on locked memory is 1048576 bytes")
		require.ErrorContains(t, err, "67108864")
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to drop a capability")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("needs setpriv (util-linux)")
	}
	// Root may exceed the limit unless it lacks the capability.
	child := exec.Command("setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", os.Args[0],
		"-test.run=^TestVerbsLockedMemory$", "-test.v")
	child.Env = append(os.Environ(), lockedVariable+"=1")
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS")
}
