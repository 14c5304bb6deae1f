package shm

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// NamedDir is the directory below which segments with backing Named are.
const NamedDir = "/dev/shm"

// EnvDir is the variable with the directory in which a process makes files of shared memory. It is
// below NamedDir. The process that sets it removes the directory when the other process has ended,
// also if it was killed.
const EnvDir = "TRANSPORTBENCH_SHM_DIR"

// Dir returns the directory in which this process makes files of shared memory: that of EnvDir, or
// NamedDir.
func Dir() string {
	if dir := os.Getenv(EnvDir); below(dir) != "" {
		return dir
	}
	return NamedDir
}

// HasRoom reports whether NamedDir can be written to and has room for that many bytes.
func HasRoom(bytes uint64) bool {
	var fs unix.Statfs_t
	return unix.Statfs(NamedDir, &fs) == nil && fs.Flags&unix.ST_RDONLY == 0 &&
		fs.Bavail*uint64(fs.Bsize) >= bytes
}

// below returns path relative to NamedDir, or "" if it is not below it.
func below(path string) string {
	name, err := filepath.Rel(NamedDir, path)
	if err != nil || !plain(name) {
		return ""
	}
	return name
}

// plain reports whether name is a path below a directory.
func plain(name string) bool {
	return name != "." && filepath.IsLocal(name) && filepath.Clean(name) == name
}
