package host

import (
	"log/slog"
	"slices"
	"strings"

	"transportbench/core/plugin/internal/wire"
)

// A plugin inherits these variables and no others. The rest of a shell's environment differs
// between users and shifts the stack of every process. GOMAXPROCS, GOGC and GOMEMLIMIT are set by
// the rank itself, and a transport's options are in its plan.
var (
	passedNames = []string{
		"GOCOVERDIR", "GORACE", "GOTRACEBACK", "HOME", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD",
		"LOGNAME", "PATH", "TMPDIR", "TZ", "USER",
	}
	passedPrefixes = []string{
		"CUDA_", "FI_", "IBV_", "LC_", "MLX4_", "MLX5_", "NVIDIA_", "PSM2_", "PSM3_",
		"RDMAV_", "UCX_",
	}
	// libpsm2 and libinfinipath, which libfabric loads, handle fatal signals: they write a
	// backtrace into the working directory, through links of others there.
	setVariables = []string{"HFI_BACKTRACE=0", "IPATH_NO_BACKTRACE=1"}
)

// pluginEnvironment returns the environment of a plugin, given the host's.
func pluginEnvironment(environ []string) []string {
	var env []string
	godebug := ""
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if name == "GODEBUG" {
			godebug = value
		}
		if passed(name) {
			env = append(env, entry)
		}
	}
	return append(append(env, setVariables...), "GODEBUG="+mergeGodebug(godebug))
}

func passed(name string) bool {
	return slices.Contains(passedNames, name) ||
		slices.ContainsFunc(passedPrefixes,
			func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// mergeGodebug turns asynchronous preemption off. Polling threads run for longer than 10 ms by
// design, and the Go runtime would interrupt them with SIGURG during a measured window; their loops
// stop cooperatively. The user's settings come last and win.
func mergeGodebug(existing string) string {
	const ours = "asyncpreemptoff=1"
	if existing == "" {
		return ours
	}
	return ours + "," + existing
}

// logEnvironment returns the variable that tells a plugin the host's lowest log level.
func logEnvironment(enabled func(slog.Level) bool) string {
	level := slog.LevelError
	for _, l := range []slog.Level{slog.LevelWarn, slog.LevelInfo, slog.LevelDebug} {
		if enabled(l) {
			level = l
		}
	}
	return wire.EnvLogLevel + "=" + level.String()
}
