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

// sources are the packages that a plugin links as the measured runtime, the
// building blocks of its links between client and daemon included, and
// core/base/config, whose types are part of what travels between host and rank.
//
//go:embed base/config/*.go base/machine/*.go base/machine/*.s base/record/*.go
//go:embed fabric/shm/*.go fabric/shm/*.s fabric/shm/inbox/*.go fabric/shm/ring/*.go
//go:embed runtime/kv/*.go runtime/rank/*.go runtime/workload/*.go
//go:embed transport/*.go
var sources embed.FS

// toolchain are the build settings that change what the compiler makes of the
// same sources. -race and -gcflags are among them since nobody should compare
// such a build with a plain one unawares.
var toolchain = []string{"-asan", "-gcflags", "-msan", "-race", "GOAMD64", "GOARCH", "GOARM64", "GOEXPERIMENT"}

// RuntimeDigest identifies the measured runtime that this binary links: a
// SHA-256, in hex, over the runtime's sources, the Go version and the build
// settings that change the code. Two binaries with the same digest measure the
// same way.
//
// It is taken over embedded sources rather than from version control, since a
// plugin outside this repository carries its own repository's revision. It
// leaves third-party modules out: those in the measured loop do not change
// results without a change of the sources around them, and a module's list
// would differ between host and plugin for reasons that do not matter.
func RuntimeDigest() string { return runtimeDigest() }

var runtimeDigest = sync.OnceValue(func() string {
	settings := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	settings["GOARCH"] = runtime.GOARCH // also where the build left no settings
	return digest(sources, runtime.Version(), settings)
})

// digest hashes every file of tree but tests, in sorted order, each with its
// name and length so that no two trees read the same, and then the toolchain.
func digest(tree fs.FS, goVersion string, settings map[string]string) string {
	h := sha256.New()
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		return hashFile(h, tree, name)
	})
	if err != nil {
		panic(fmt.Sprintf("core: reading embedded sources: %v", err)) // they are part of the binary
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
