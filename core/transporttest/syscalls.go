package transporttest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// tracedFile is the variable that makes CheckSyscalls the traced process. It has the file into
// which that writes what it counted.
const tracedFile = "TRANSPORTTEST_TRACED"

// CheckSyscalls compares the transport's counter of system calls with those of strace(1). It runs
// the calling test again under strace, which counts the system calls with the given names: those
// that the transport makes on its data path, and that the Go runtime does not make. Setting up and
// closing may add calls that are not counted; there are few of them. CheckSyscalls skips the test
// without strace or the right to trace.
func CheckSyscalls(t *testing.T, s Suite, names ...string) {
	t.Helper()
	tr, err := survey(&s)
	if err != nil {
		require.ErrorIs(t, err, transport.ErrUnavailable)
		t.Skip(err)
	}
	if path := os.Getenv(tracedFile); path != "" {
		failed, lines := try(&s, tr, clause{run: func(t *trial) { countSyscalls(t, path) }})
		require.False(t, failed, strings.Join(lines, "\n"))
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	dir := t.TempDir()
	counted, summary := filepath.Join(dir, "counted"), filepath.Join(dir, "strace")
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-c", "-o", summary, "-e",
		"trace="+strings.Join(names, ","),
		os.Args[0], "-test.run", "^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	cmd.Env = append(os.Environ(), tracedFile+"="+counted)
	output, err := cmd.CombinedOutput()
	if strings.Contains(string(output), "ptrace") {
		t.Skipf("strace may not trace here: %s", output)
	}
	require.NoError(t, err, "the traced process: %s", output)
	own, err := os.ReadFile(counted)
	require.NoError(t, err)
	want, err := strconv.Atoi(strings.TrimSpace(string(own)))
	require.NoError(t, err)
	got := straceTotal(t, summary)
	t.Logf("the transport counted %d system calls, strace %d", want, got)
	const outside = 400 // setting up, heartbeats, closing
	require.InDelta(t, got, want, outside+0.02*float64(got),
		"system calls as strace counts them, and as the transport does")
}

// countSyscalls makes calls and writes the workers' counts of system calls to a file.
func countSyscalls(t *trial, path string) {
	c, a, b := t.pair(layout{inFlight: 4, maxPayload: 256})
	for i := range uint64(2000) {
		a.call(0, pattern(i, int(i%256)))
		c.drain()
	}
	total := uint64(0)
	for _, n := range []*node{a, b} {
		for _, s := range n.stats() {
			if s.Name == transport.StatSyscalls {
				total += s.Value
			}
		}
	}
	require.NoError(t, os.WriteFile(path, fmt.Append(nil, total), 0o600))
}

// straceTotal reads the number of calls from the last line of the table of strace -c.
func straceTotal(t *testing.T, path string) int {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 5 &&
			fields[len(fields)-1] == "total" {
			n, err := strconv.Atoi(fields[3])
			require.NoError(t, err)
			return n
		}
	}
	return 0
}
