package core

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// sources has every package of this module that core/runtime/rank needs: the measured loop and
// the data that it exchanges with the host. The packages below fabric are the links between
// clients and daemons in mesh-proxied, which are part of the measured runtime as well; shm uses
// them as a transport. A test compares the list with the imports.
//
//go:embed base/carrier/*.go base/config/*.go base/cpulist/*.go base/delay/*.go base/machine/*.go
//go:embed base/matrix/*.go base/model/*.go base/netem/*.go base/record/*.go base/replay/*.go
//go:embed fabric/clock/*.go fabric/clock/*.s fabric/control/*.go fabric/floor/*.go
//go:embed fabric/floor/*.s fabric/pow2/*.go
//go:embed fabric/sock/*.go fabric/spin/*.go fabric/spin/*.s fabric/suggest/*.go
//go:embed fabric/shm/*.go fabric/shm/*.s fabric/shm/inbox/*.go fabric/shm/ring/*.go
//go:embed runtime/client/*.go runtime/daemon/*.go runtime/kv/*.go runtime/loop/*.go
//go:embed runtime/rank/*.go runtime/wiring/*.go runtime/workload/*.go
//go:embed transport/*.go
var sources embed.FS

// toolchain lists the build settings that change the code that the compiler makes of the same
// sources. -race and -gcflags are among them, so that such a build is not compared with a plain
// one by accident.
var toolchain = []string{"-asan", "-gcflags", "-msan", "-race", "GOAMD64", "GOARCH", "GOARM64",
	"GOEXPERIMENT"}

// RuntimeDigest identifies the measured runtime of this binary: a SHA-256, in hex, over the
// runtime's sources, the Go version and the build settings that change the code. Two binaries
// with the same digest measure in the same way.
//
// It hashes embedded sources instead of a revision, because a plugin outside this repository
// has the revision of its own repository. It leaves out other modules: their versions differ
// between host and plugin for reasons that do not affect results.
func RuntimeDigest() string { return runtimeDigest() }

var runtimeDigest = sync.OnceValue(func() string {
	settings := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	settings["GOARCH"] = runtime.GOARCH // also if the build has no settings
	return digest(sources, runtime.Version(), settings)
})

// digest hashes every file of tree except tests, in sorted order, and then the toolchain. It
// hashes the name and length of a file before its text, so that no two trees hash the same bytes.
func digest(tree fs.FS, goVersion string, settings map[string]string) string {
	h := sha256.New()
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		return hashFile(h, tree, name)
	})
	if err != nil {
		panic(fmt.Sprintf("core: read embedded sources: %v", err)) // they are part of the binary
	}
	fmt.Fprintf(h, "go %s\n", goVersion)
	for _, key := range slices.Sorted(slices.Values(toolchain)) {
		fmt.Fprintf(h, "%s=%s\n", key, settings[key])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hashFile(h hash.Hash, tree fs.FS, name string) error {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%s %d\n", path.Clean(name), len(text))
	h.Write(text)
	return nil
}
