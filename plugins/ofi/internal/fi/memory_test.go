//go:build ofi && cgo

package fi

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLockOfADeadProcess: a lock in shared memory whose holder was killed is taken over after 0.5
// s, and one whose holder lives is not.
func TestLockOfADeadProcess(t *testing.T) {
	program := filepath.Join(t.TempDir(), "lock")
	out, err := exec.CommandContext(t.Context(), "gcc", "-O2", "-Wall", "-Werror", "-pthread",
		"-I.", "-o", program, "testdata/lock.c", "memory.c").CombinedOutput()
	require.NoError(t, err, string(out))
	t.Run("dead", func(t *testing.T) {
		t.Parallel()
		out, err := exec.CommandContext(t.Context(), program, "dead").Output()
		require.NoError(t, err)
		waited, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, waited, 0.5)
	})
	t.Run("alive", func(t *testing.T) {
		t.Parallel()
		err := exec.CommandContext(t.Context(), program, "alive").Run()
		require.EqualError(t, err, "signal: alarm clock",
			"the waiter still waited when its time was up")
	})
}
