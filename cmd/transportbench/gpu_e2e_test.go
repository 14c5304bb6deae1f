package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

// buildForGPU builds tcpx as a machine with a C compiler does.
func buildForGPU(t *testing.T) (plugins string) {
	t.Helper()
	plugins = filepath.Join(bin, "gpu")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", "cuda",
		"-o", filepath.Join(plugins, "transport-tcpx"), "transportbench/cmd/transports-libc")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	return plugins
}

// driver builds the library that replaces NVIDIA's driver in tests and returns its
// directory.
func driver(t *testing.T, flags ...string) (directory string) {
	t.Helper()
	directory = t.TempDir()
	output, err := exec.Command("gcc", append(flags, "-shared", "-fPIC", "-o",
		filepath.Join(directory, "libcuda.so.1"),
		"../../plugins/tcpx/internal/cuda/testdata/driver.c")...).CombinedOutput()
	require.NoError(t, err, string(output))
	return directory
}

// TestRunOnGPU makes whole runs over a test GPU. Values stay in its memory, values copied
// back after each window are verified, and a wrong byte is found.
func TestRunOnGPU(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("gcc is needed to build the binding and the test driver: %v", err)
	}
	plugins, sound := buildForGPU(t), driver(t)
	run := func(libraries string, args ...string) (*invocation, int) {
		i := command(t, append([]string{"run", "--json", "--plugin-dir", plugins,
			"--transport", "tcpx",
			"--duration", window, "--warmup", "20ms", "--repeats", "1"}, args...)...)
		i.cmd.Env = append(i.cmd.Env, "LD_LIBRARY_PATH="+libraries)
		return i, i.run(t)
	}
	verified := func(i *invocation) (*result.Result, result.Finding) {
		r, err := result.Parse(i.stdout.Bytes())
		require.NoError(t, err, i.stderr.String())
		return r,
			r.Checks[slices.IndexFunc(r.Checks,
				func(c result.Finding) bool { return c.Name == "verified" })]
	}
	for name, args := range map[string][]string{
		"kernel": {"--profile", "bulk", "--set", "mode=gpu"},
		"copy engine": {"--profile", "bulk", "--set", "mode=gpu", "--set", "unpack=copy-engine",
			"--set", "sockets=3", "--set", "chunk=64KiB"},
		"auto": {"--profile", "bulk", "--set", "mode=auto"},
		"small": {"--profile", "kv", "--read-ratio", "0", "--in-flight", "32", "--clients",
			"2", "--set", "mode=gpu"},
		"sync":   {"--profile", "bulk", "--set", "mode=gpu", "--set", "unpack-launch=sync"},
		"sender": {"--profile", "bulk", "--set", "mode=gpu", "--set", "send-memory=device"},
		"senders": {"--profile", "kv", "--read-ratio", "0", "--in-flight", "32", "--clients",
			"2", "--set", "mode=gpu", "--set", "send-memory=device"},
		"mesh": {"--profile", "bulk", "--value-size", "100KiB", "--topology", "mesh-direct",
			"--set", "mode=gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			i, code := run(sound, args...)
			require.Zero(t, code, i.stderr.String())
			r, check := verified(i)
			require.True(t, check.OK, check.Message)
			require.Contains(t, check.Message, "were copied back after the windows, and are right")
			require.Equal(t, "gpu", r.Plugin.Provider)
			require.Equal(t, "GPU of tests 7", r.Plugin.Notes["gpu"])
			values, verified := uint64(0), uint64(0)
			for _, d := range r.Repeats[0].Daemons() {
				values += d.Device.Values
				verified += d.Device.Verified
			}
			require.Positive(t, values)
			require.Positive(t, verified)
			require.Positive(t, stat(r, "gpu_bytes"))
			require.Equal(t, strings.HasPrefix(name, "sender"), stat(r, "gpu_send_copies") > 0)
			if name == "auto" {
				require.Contains(t, r.Plugin.Notes["auto"], "gpu; unavailable: mode devmem: ")
			}
		})
	}
	t.Run("a wrong byte", func(t *testing.T) {
		i, code := run(driver(t, "-DDAMAGE"), "--profile", "bulk", "--set", "mode=gpu")
		require.Equal(t, 4, code, i.stderr.String())
		_, check := verified(i)
		require.False(t, check.OK)
		require.Contains(t, check.Message, "values wrong in device memory")
	})
	t.Run("reads", func(t *testing.T) {
		i, code := run(sound, "--profile", "kv", "--set", "mode=gpu")
		require.NotZero(t, code)
		require.Contains(t, i.stderr.String(),
			"use a workload that only writes, such as --profile bulk")
	})
	t.Run("no driver", func(t *testing.T) {
		libraries := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(libraries, "libcuda.so.1"),
			[]byte("not a library at all\n"), 0o600))
		i, code := run(libraries, "--profile", "bulk", "--set", "mode=gpu")
		require.NotZero(t, code)
		require.Contains(t, i.stderr.String(), "unavailable: mode gpu: "+libraries+
			"/libcuda.so.1: ", "the loader's message")
	})
}
