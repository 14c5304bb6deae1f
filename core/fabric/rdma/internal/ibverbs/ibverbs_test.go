//go:build ibverbs

package ibverbs

import (
	"debug/elf"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLoad checks that a program runs without libibverbs, and what it says where the library is
// missing or lacks a function.
func TestLoad(t *testing.T) {
	program, err := elf.Open("/proc/self/exe")
	require.NoError(t, err)
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	require.NoError(t, err)
	require.NotContains(t, libraries, "libibverbs.so.1")

	require.EqualError(t, load("libmissing.so.1"), "libmissing.so.1: cannot open shared object "+
		"file: No such file or directory; install libibverbs1 and ibverbs-providers")
	require.ErrorContains(t, load("libc.so.6"), "undefined symbol: ibv_get_device_list; install")
}
