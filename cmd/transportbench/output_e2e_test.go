package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const committed = "../../results/v0.2.0/amd-epyc-2core-vm"

// standardOutput makes a link like /dev/stdout, which a broken command may replace.
func standardOutput(t *testing.T) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "stdout")
	require.NoError(t, os.Symlink("/proc/self/fd/1", link))
	return link
}

func TestReportOntoStandardOutput(t *testing.T) {
	i := command(t, "report", committed, "-o", standardOutput(t))
	require.Zero(t, i.run(t), i.stderr.String()) // a pipe
	page := i.stdout.String()
	require.Contains(t, page, "</html>")

	path := filepath.Join(t.TempDir(), "deleted")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Remove(path))
	i = command(t, "report", committed, "-o", standardOutput(t))
	i.cmd.Stdout = f
	require.Zero(t, i.run(t), i.stderr.String())
	info, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, len(page), info.Size())
}

func TestInterruptWhileAReaderDoesNotRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close()
	i := command(t, "report", committed, "-o", pipe)
	require.NoError(t, i.cmd.Start())
	_, err = reader.Read(make([]byte, 1)) // the rest is more than a pipe holds
	require.NoError(t, err)
	require.NoError(t, i.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 130, i.wait(t))
	require.Equal(t, "transportbench: interrupted\n", i.stderr.String())
}
