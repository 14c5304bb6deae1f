package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// exitError returns why a process of plugin ended, from its status and output: a missing library,
// or a [*record.ExitError].
func exitError(plugin string, c *child, output *tail) error {
	lines := output.all()
	printable.Strings(&lines)
	for _, line := range lines {
		if problem := missingLibrary(line); problem != "" {
			return unavailable(fmt.Sprintf("plugin %s: %s", plugin, problem))
		}
	}
	return &record.ExitError{
		Plugin: plugin, PID: c.pid, State: c.state(),
		Reason: record.Cut(printable.Text(output.reason())), Output: lines,
	}
}

// unavailable is what this machine lacks for a plugin.
type unavailable string

func (u unavailable) Error() string { return string(u) }

// Is makes it a [transport.ErrUnavailable].
func (unavailable) Is(target error) bool { return target == transport.ErrUnavailable }

var loaderError = regexp.MustCompile(`error while loading shared libraries: ([^:]+): (.+)$`)

// libraryPackages has the remedy for each missing library, by the prefix of the file's name.
var libraryPackages = []struct{ prefix, remedy string }{
	{"libucp.so", "install libucx0"},
	{"libuct.so", "install libucx0"},
	{"libucs.so", "install libucx0"},
	{"libucm.so", "install libucx0"},
	{"libfabric.so", "install libfabric1"},
	{"libibverbs.so", "install libibverbs1"},
	{"librdmacm.so", "install librdmacm1"},
	{"libmlx5.so", "install ibverbs-providers"},
	{"libefa.so", "install ibverbs-providers"},
	{"libnl-", "install libnl-3-200 and libnl-route-3-200"},
	{"libnuma.so", "install libnuma1"},
	{"libcuda.so", "install the NVIDIA driver (libcuda1)"},
	{"libcudart.so", "install the CUDA runtime (libcudart)"},
}

// missingLibrary explains an error of the dynamic loader and names the package to install. It
// returns "" for any other line.
func missingLibrary(line string) string {
	m := loaderError.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	library, why := m[1], m[2]
	if !strings.Contains(why, "No such file") {
		return fmt.Sprintf("cannot load %s: %s", library, why)
	}
	for _, known := range libraryPackages {
		if strings.HasPrefix(library, known.prefix) {
			return fmt.Sprintf("%s is missing: %s", library, known.remedy)
		}
	}
	return fmt.Sprintf("%s is missing: install its package, or set LD_LIBRARY_PATH", library)
}

// startError explains why the kernel cannot execute a plugin's file, or why there is no place to
// start it from.
func startError(plugin, path string, err error) error {
	var setup *SetupError
	switch {
	case errors.As(err, &setup):
		return err
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf(
			"plugin %s: %s is not a program for this machine: build the plugin here (make build)",
			plugin, path)
	case errors.Is(err, fs.ErrPermission):
		return &SetupError{fmt.Errorf("plugin %s: %s is not executable: chmod +x it, or remove "+
			"it, and check for a noexec file system: %w", plugin, path, err)}
	case errors.Is(err, fs.ErrNotExist) && exists(path):
		return fmt.Errorf("plugin %s: the interpreter or dynamic loader of %s is missing: build "+
			"the plugin here (make build)", plugin, path)
	default:
		return fmt.Errorf("plugin %s: starting %s: %w", plugin, path, err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
