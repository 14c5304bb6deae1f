package host

import (
	"log/slog"
	"strings"

	"transportbench/core/plugin/internal/wire"
)

// Variables that a plugin gets from the host's environment; all others stay
// behind. What a shell carries around differs from user to user and moves the
// stack of every process, and GOMAXPROCS, GOGC and GOMEMLIMIT are the rank's to
// set. A transport's options travel in its plan.
var (
	passedNames = []string{
		"GOCOVERDIR", "GORACE", "GOTRACEBACK", "HOME", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD",
		"LOGNAME", "PATH", "TMPDIR", "TZ", "USER",
	}
	passedPrefixes = []string{
		"CUDA_", "IBV_", "LC_", "MLX4_", "MLX5_", "NVIDIA_", "RDMAV_", "UCX_",
	}
)

// pluginEnvironment selects from environ, the host's, and adds what every
// plugin needs.
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
	return append(env, "GODEBUG="+mergeGodebug(godebug))
}

func passed(name string) bool {
	for _, n := range passedNames {
		if name == n {
			return true
		}
	}
	for _, p := range passedPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// mergeGodebug switches asynchronous preemption off: a polling thread runs for
// longer than 10 ms by design, and the runtime would interrupt it with SIGURG
// again and again inside the measured window. Its loops stop cooperatively.
// What the user sets comes behind and wins.
func mergeGodebug(existing string) string {
	const ours = "asyncpreemptoff=1"
	if existing == "" {
		return ours
	}
	return ours + "," + existing
}

// logEnvironment tells a plugin which records the host would keep.
func logEnvironment(enabled func(slog.Level) bool) string {
	level := slog.LevelError
	for _, l := range []slog.Level{slog.LevelWarn, slog.LevelInfo, slog.LevelDebug} {
		if enabled(l) {
			level = l
		}
	}
	return wire.EnvLogLevel + "=" + level.String()
}
